-- Schema 3: the lives of a session, calls that run, subagents, compactions and plans.

ALTER TABLE sessions ADD COLUMN life_started_at INTEGER NOT NULL DEFAULT 0;
-- The session that was cleared away for this one.
ALTER TABLE sessions ADD COLUMN resumed_from TEXT;
UPDATE sessions SET life_started_at = started_at;

-- Set for a call that was refused before it ran: the event that told of it, perhaps of several at once.
ALTER TABLE activities ADD COLUMN part_of BLOB;
CREATE INDEX activities_by_call ON activities (session, tool_use_id) WHERE tool_use_id IS NOT NULL;

-- When its observations were last made, and up to which activity.
ALTER TABLE prompt_batches ADD COLUMN compressed_at INTEGER;
ALTER TABLE prompt_batches ADD COLUMN flushed_upto INTEGER NOT NULL DEFAULT 0;
CREATE INDEX prompt_batches_unmade ON prompt_batches (id) WHERE compressed_at IS NULL;
-- Until now a batch got its job in the transaction that closed it.
UPDATE prompt_batches SET compressed_at = closed_at WHERE status = 'closed';

-- What was said of a session's life, in order: one start and one end each.
CREATE TABLE life_events (
    id      INTEGER PRIMARY KEY,
    session INTEGER NOT NULL REFERENCES sessions ON DELETE CASCADE,
    life    INTEGER NOT NULL,
    name    TEXT NOT NULL,
    at      INTEGER NOT NULL,
    detail  TEXT NOT NULL
);
CREATE INDEX life_events_by_session ON life_events (session, id);
CREATE UNIQUE INDEX life_events_once ON life_events (session, life, name)
    WHERE name IN ('session_start', 'session_end');

-- Calls that were begun and have no result yet.
CREATE TABLE running_calls (
    session  INTEGER NOT NULL REFERENCES sessions ON DELETE CASCADE,
    call_id  TEXT NOT NULL,
    subagent TEXT,
    PRIMARY KEY (session, call_id)
) WITHOUT ROWID;

-- Helpers that an agent started. `parent_call` is the call that did.
CREATE TABLE subagents (
    id            INTEGER PRIMARY KEY,
    session       INTEGER NOT NULL REFERENCES sessions ON DELETE CASCADE,
    batch         INTEGER REFERENCES prompt_batches ON DELETE CASCADE,
    agent_id      TEXT NOT NULL,
    agent_type    TEXT,
    parent_call   TEXT,
    message,
    message_event BLOB,
    started_at    INTEGER,
    ended_at      INTEGER,
    UNIQUE (session, agent_id)
);
CREATE INDEX subagents_by_batch ON subagents (batch);

-- A conversation that was shortened. `summary` is the agent's own.
CREATE TABLE compactions (
    id              INTEGER PRIMARY KEY,
    session         INTEGER NOT NULL REFERENCES sessions ON DELETE CASCADE,
    batch           INTEGER REFERENCES prompt_batches ON DELETE CASCADE,
    trigger         TEXT NOT NULL,
    message_count   INTEGER NOT NULL,
    compacted_count INTEGER,
    summary,
    started_at      INTEGER,
    ended_at        INTEGER
);
CREATE INDEX compactions_by_session ON compactions (session, id);

-- One plan for each file of a session, and its task list (`kind` 'tasks'). A plan without a file has the path ''.
CREATE TABLE plans (
    id         INTEGER PRIMARY KEY AUTOINCREMENT,
    session    INTEGER NOT NULL REFERENCES sessions ON DELETE CASCADE,
    -- The batch that changed it last.
    batch      INTEGER REFERENCES prompt_batches ON DELETE SET NULL,
    kind       TEXT NOT NULL,
    path       TEXT NOT NULL,
    title      TEXT NOT NULL,
    text       NOT NULL,
    state      TEXT NOT NULL,
    event_id   BLOB,
    created_at INTEGER NOT NULL,
    updated_at INTEGER NOT NULL,
    UNIQUE (session, kind, path)
);
CREATE INDEX plans_by_path ON plans (path);

-- The batches that made a plan or carry it out.
CREATE TABLE plan_batches (
    plan  INTEGER NOT NULL REFERENCES plans ON DELETE CASCADE,
    batch INTEGER NOT NULL REFERENCES prompt_batches ON DELETE CASCADE,
    PRIMARY KEY (plan, batch)
) WITHOUT ROWID;
CREATE INDEX plan_batches_by_batch ON plan_batches (batch);
