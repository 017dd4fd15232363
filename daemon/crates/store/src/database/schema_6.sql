-- Summaries and plans of other machines. They have no session here: `share` is the one they came by, `uuid` their name in it, and
-- `author` and `device` say whose they are. SQLite cannot take back NOT NULL, so both tables are made anew.
CREATE TABLE summaries_anew (
    id           INTEGER PRIMARY KEY AUTOINCREMENT,
    session      INTEGER UNIQUE REFERENCES sessions ON DELETE CASCADE,
    project      INTEGER NOT NULL REFERENCES projects,
    title        TEXT NOT NULL,
    request      TEXT NOT NULL,
    investigated TEXT NOT NULL,
    learned      TEXT NOT NULL,
    completed    TEXT NOT NULL,
    next_steps   TEXT NOT NULL,
    notes        TEXT NOT NULL,
    origin       TEXT NOT NULL,
    created_at   INTEGER NOT NULL,
    share        INTEGER REFERENCES shares,
    uuid         TEXT UNIQUE,
    author       TEXT,
    device       TEXT,
    CHECK ((session IS NULL) = (share IS NOT NULL AND uuid IS NOT NULL))
);
-- A number that was given once is not given again.
INSERT INTO sqlite_sequence (name, seq) SELECT 'summaries_anew', seq FROM sqlite_sequence WHERE name = 'session_summaries';
INSERT INTO summaries_anew (id, session, project, title, request, investigated, learned, completed, next_steps, notes, origin, created_at)
    SELECT id, session, project, title, request, investigated, learned, completed, next_steps, notes, origin, created_at
    FROM session_summaries;
DROP TABLE session_summaries;
ALTER TABLE summaries_anew RENAME TO session_summaries;
CREATE INDEX session_summaries_newest ON session_summaries (project, created_at DESC);
CREATE INDEX session_summaries_by_time ON session_summaries (created_at);
CREATE INDEX session_summaries_of_others ON session_summaries (share, created_at DESC) WHERE share IS NOT NULL;

CREATE TABLE plans_anew (
    id         INTEGER PRIMARY KEY AUTOINCREMENT,
    session    INTEGER REFERENCES sessions ON DELETE CASCADE,
    batch      INTEGER REFERENCES prompt_batches ON DELETE SET NULL,
    kind       TEXT NOT NULL,
    path       TEXT NOT NULL,
    title      TEXT NOT NULL,
    text       NOT NULL,
    state      TEXT NOT NULL,
    event_id   BLOB,
    created_at INTEGER NOT NULL,
    updated_at INTEGER NOT NULL,
    tasks      TEXT,
    share      INTEGER REFERENCES shares,
    uuid       TEXT UNIQUE,
    author     TEXT,
    device     TEXT,
    UNIQUE (session, kind, path),
    CHECK ((session IS NULL) = (share IS NOT NULL AND uuid IS NOT NULL))
);
INSERT INTO sqlite_sequence (name, seq) SELECT 'plans_anew', seq FROM sqlite_sequence WHERE name = 'plans';
INSERT INTO plans_anew (id, session, batch, kind, path, title, text, state, event_id, created_at, updated_at, tasks)
    SELECT id, session, batch, kind, path, title, text, state, event_id, created_at, updated_at, tasks FROM plans;
-- Dropping a table deletes what refers to its rows.
CREATE TABLE plan_batches_kept AS SELECT plan, batch, event_id, prompt_id FROM plan_batches ORDER BY rowid;
DELETE FROM plan_batches;
DROP TABLE plans;
ALTER TABLE plans_anew RENAME TO plans;
INSERT INTO plan_batches (plan, batch, event_id, prompt_id)
    SELECT plan, batch, event_id, prompt_id FROM plan_batches_kept ORDER BY rowid;
DROP TABLE plan_batches_kept;
CREATE INDEX plans_by_path ON plans (path);
CREATE INDEX plans_by_batch ON plans (batch) WHERE batch IS NOT NULL;
CREATE INDEX plans_of_others ON plans (share) WHERE share IS NOT NULL;

-- As `logged_upto`, for the summaries and the plans that were there before their project was shared.
ALTER TABLE shares ADD COLUMN summaries_logged_upto INTEGER NOT NULL DEFAULT 0;
ALTER TABLE shares ADD COLUMN plans_logged_upto INTEGER NOT NULL DEFAULT 0;

-- Who looks for what somebody made.
CREATE INDEX observations_by_author ON observations (author, share) WHERE author IS NOT NULL;
