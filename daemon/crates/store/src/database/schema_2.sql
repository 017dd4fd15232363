-- What people change. `pinned_at`: a session that starts is told of it first. `made_as`: the title under which compression
-- knows an observation whose text a person has written anew; it is not made a second time.
ALTER TABLE observations ADD COLUMN pinned_at INTEGER;
ALTER TABLE observations ADD COLUMN made_as TEXT;
CREATE INDEX observations_pinned ON observations (project) WHERE pinned_at IS NOT NULL;
CREATE INDEX observations_by_hand ON observations (project, importance DESC, created_at DESC)
    WHERE status = 'active' AND origin = 'user';
CREATE INDEX observations_made_as ON observations (project, made_as) WHERE made_as IS NOT NULL;

-- Changes by hand, newest last, with what was there before, as JSON.
CREATE TABLE hand_changes (
    id          INTEGER PRIMARY KEY AUTOINCREMENT,
    observation INTEGER NOT NULL REFERENCES observations ON DELETE CASCADE,
    what        TEXT NOT NULL,
    before      TEXT NOT NULL,
    at          INTEGER NOT NULL,
    undone      INTEGER NOT NULL DEFAULT 0
);
CREATE INDEX hand_changes_by_observation ON hand_changes (observation);

-- Each result of a compression job is compared with the newest statements, inside the write: their rows would be read page by
-- page, and here they stand side by side.
CREATE INDEX observations_threads ON observations (project, created_at DESC, origin, session, words, subject)
    WHERE subject IS NULL AND words IS NOT NULL;
CREATE INDEX observations_uncovered ON observations (project) WHERE status = 'superseded' AND superseded_by IS NULL;
CREATE INDEX observations_by_type ON observations (project, type, created_at DESC)
    WHERE status = 'active' AND origin <> 'user';

-- Whoever deletes a row looks for those that refer to it: without these, through the whole table.
CREATE INDEX jobs_by_batch ON jobs (batch) WHERE batch IS NOT NULL;
CREATE INDEX observations_by_successor ON observations (superseded_by) WHERE superseded_by IS NOT NULL;
CREATE INDEX compactions_by_batch ON compactions (batch) WHERE batch IS NOT NULL;
CREATE INDEX plans_by_batch ON plans (batch) WHERE batch IS NOT NULL;
CREATE INDEX file_rewrites_by_activity ON file_rewrites (activity);

-- Who looks through everything by its time.
CREATE INDEX prompt_batches_by_time ON prompt_batches (opened_at, session) WHERE prompt IS NOT NULL;
CREATE INDEX session_summaries_by_time ON session_summaries (created_at);

-- Where a session is talked to, as its agent has told last: ids of channel, account and conversation, as JSON.
ALTER TABLE sessions ADD COLUMN place TEXT;
-- Who looks for the session of a message that has reached its host.
CREATE INDEX sessions_by_place ON sessions (agent, last_event_at) WHERE place IS NOT NULL;
-- The host's own counts: the messages of the conversation, and what its last compaction has replaced.
ALTER TABLE sessions ADD COLUMN host_messages INTEGER;
ALTER TABLE sessions ADD COLUMN host_compacted INTEGER;

-- When a call began, and of a running one what it is; `tool` is empty where nothing may be told of it.
ALTER TABLE running_calls ADD COLUMN tool TEXT;
ALTER TABLE running_calls ADD COLUMN began_at INTEGER NOT NULL DEFAULT 0;
ALTER TABLE activities ADD COLUMN began_at INTEGER;
-- The rule of a guard that has refused the call.
ALTER TABLE running_calls ADD COLUMN refused_by TEXT;
ALTER TABLE activities ADD COLUMN refused_by TEXT;
-- The files that a call has changed, as hashes of eight bytes each.
ALTER TABLE activities ADD COLUMN changed_files BLOB;

-- What was forgotten, by names that every copy of it has: hashes of an event's id, an observation's uuid and its text, of what a
-- session had only one of. `at`: when. It does not come back by an import or an older backup.
CREATE TABLE forgotten (
    name BLOB PRIMARY KEY,
    at   INTEGER NOT NULL
) WITHOUT ROWID;

-- What became of an item of an injection: `opened`, `followed`, `repeated`, `contradicted`, `wrong`. `at`: when that was first seen.
CREATE TABLE told_uses (
    injection INTEGER NOT NULL REFERENCES injections ON DELETE CASCADE,
    kind      TEXT NOT NULL,
    row       INTEGER NOT NULL,
    use       TEXT NOT NULL,
    at        INTEGER NOT NULL,
    PRIMARY KEY (injection, kind, row, use)
) WITHOUT ROWID;
CREATE INDEX told_uses_against ON told_uses (kind, row, use, at) WHERE use IN ('contradicted', 'wrong');
