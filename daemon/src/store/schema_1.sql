-- Schema 1. Times are milliseconds since 1970 (UTC); event ids are 16 bytes; texts over a few kilobytes are
-- zstd-compressed blobs, shorter ones plain text; lists are JSON arrays.

CREATE TABLE meta (
    key   TEXT PRIMARY KEY,
    value NOT NULL
) WITHOUT ROWID;

-- A project is one repository, whatever folder it lies in. `key` is its strongest identity.
CREATE TABLE projects (
    id         INTEGER PRIMARY KEY,
    key        TEXT NOT NULL UNIQUE,
    name       TEXT NOT NULL,
    created_at INTEGER NOT NULL
);

-- Every identity a project was ever seen with: remote, root commit, folder.
CREATE TABLE project_aliases (
    alias   TEXT PRIMARY KEY,
    project INTEGER NOT NULL REFERENCES projects ON DELETE CASCADE
) WITHOUT ROWID;
CREATE INDEX project_aliases_by_project ON project_aliases (project);

CREATE TABLE sessions (
    id              INTEGER PRIMARY KEY,
    agent           TEXT NOT NULL,
    session_id      TEXT NOT NULL,
    project         INTEGER NOT NULL REFERENCES projects,
    root            TEXT,
    cwd             TEXT,
    transcript_path TEXT,
    status          TEXT NOT NULL,
    reason          TEXT,
    title           TEXT,
    life            INTEGER NOT NULL,
    prompts         INTEGER NOT NULL DEFAULT 0,
    activities      INTEGER NOT NULL DEFAULT 0,
    started_at      INTEGER NOT NULL,
    last_event_at   INTEGER NOT NULL,
    ended_at        INTEGER,
    end_event       BLOB,
    suspended_at    INTEGER,
    UNIQUE (agent, session_id)
);
CREATE INDEX sessions_by_project ON sessions (project, last_event_at);
CREATE INDEX sessions_by_status ON sessions (status, last_event_at);
CREATE INDEX sessions_by_id ON sessions (session_id);

-- One prompt and everything until the next. `seq` is its place in the session and never changes.
CREATE TABLE prompt_batches (
    id             INTEGER PRIMARY KEY,
    session        INTEGER NOT NULL REFERENCES sessions ON DELETE CASCADE,
    seq            INTEGER NOT NULL,
    prompt_number  INTEGER NOT NULL,
    source         TEXT NOT NULL,
    status         TEXT NOT NULL,
    close_reason   TEXT,
    prompt_id      TEXT,
    prompt,
    prompt_event   BLOB,
    response,
    response_event BLOB,
    response_turn  TEXT,
    opened_at      INTEGER NOT NULL,
    closed_at      INTEGER,
    UNIQUE (session, seq)
);

-- `batch` is empty only until the session's first batch opens.
CREATE TABLE activities (
    id            INTEGER PRIMARY KEY,
    session       INTEGER NOT NULL REFERENCES sessions ON DELETE CASCADE,
    batch         INTEGER REFERENCES prompt_batches ON DELETE CASCADE,
    event_id      BLOB NOT NULL UNIQUE,
    kind          TEXT NOT NULL,
    tool_name     TEXT NOT NULL,
    tool_use_id   TEXT,
    prompt_id     TEXT,
    subagent      TEXT,
    subagent_type TEXT,
    failed        INTEGER NOT NULL,
    duration_ms   INTEGER,
    input,
    response,
    at            INTEGER NOT NULL
);
CREATE INDEX activities_by_batch ON activities (batch, at);
CREATE INDEX activities_by_session ON activities (session, at);

-- What tells a batch's compressor more without being an activity: answers of the user, the task list.
CREATE TABLE asides (
    id        INTEGER PRIMARY KEY,
    batch     INTEGER NOT NULL REFERENCES prompt_batches ON DELETE CASCADE,
    event_id  BLOB NOT NULL UNIQUE,
    tool_name TEXT NOT NULL,
    input,
    response,
    at        INTEGER NOT NULL
);
CREATE INDEX asides_by_batch ON asides (batch);

CREATE TABLE observations (
    id             INTEGER PRIMARY KEY AUTOINCREMENT,
    uuid           TEXT NOT NULL UNIQUE,
    session        INTEGER REFERENCES sessions ON DELETE CASCADE,
    batch          INTEGER REFERENCES prompt_batches ON DELETE CASCADE,
    project        INTEGER NOT NULL REFERENCES projects,
    type           TEXT NOT NULL,
    title          TEXT NOT NULL,
    subtitle       TEXT,
    narrative      TEXT NOT NULL,
    facts          TEXT NOT NULL,
    concepts       TEXT NOT NULL,
    files_read     TEXT NOT NULL,
    files_modified TEXT NOT NULL,
    importance     INTEGER NOT NULL,
    status         TEXT NOT NULL DEFAULT 'active',
    superseded_by  INTEGER REFERENCES observations ON DELETE SET NULL,
    evidence       TEXT NOT NULL,
    origin         TEXT NOT NULL,
    tokens_saved   INTEGER NOT NULL DEFAULT 0,
    created_at     INTEGER NOT NULL
);
CREATE INDEX observations_newest ON observations (project, status, created_at DESC);
CREATE INDEX observations_weightiest ON observations (project, status, importance DESC, created_at DESC);
CREATE INDEX observations_by_batch ON observations (batch);
CREATE INDEX observations_by_session ON observations (session);
CREATE INDEX observations_by_title ON observations (project, title);
CREATE INDEX observations_by_time ON observations (created_at);

CREATE TABLE observation_files (
    observation INTEGER NOT NULL REFERENCES observations ON DELETE CASCADE,
    path        TEXT NOT NULL,
    use         TEXT NOT NULL,
    PRIMARY KEY (observation, path, use)
) WITHOUT ROWID;
CREATE INDEX observation_files_by_path ON observation_files (path);

-- An observation made again elsewhere is kept once; here is where else it rests.
CREATE TABLE observation_sessions (
    observation INTEGER NOT NULL REFERENCES observations ON DELETE CASCADE,
    session     INTEGER NOT NULL REFERENCES sessions ON DELETE CASCADE,
    PRIMARY KEY (observation, session)
) WITHOUT ROWID;
CREATE INDEX observation_sessions_by_session ON observation_sessions (session);

CREATE TABLE session_summaries (
    id           INTEGER PRIMARY KEY AUTOINCREMENT,
    session      INTEGER NOT NULL UNIQUE REFERENCES sessions ON DELETE CASCADE,
    project      INTEGER NOT NULL REFERENCES projects,
    title        TEXT NOT NULL,
    request      TEXT NOT NULL,
    investigated TEXT NOT NULL,
    learned      TEXT NOT NULL,
    completed    TEXT NOT NULL,
    next_steps   TEXT NOT NULL,
    notes        TEXT NOT NULL,
    origin       TEXT NOT NULL,
    created_at   INTEGER NOT NULL
);
CREATE INDEX session_summaries_newest ON session_summaries (project, created_at DESC);

-- Compression work. A pending job waits for `not_before`; a running one belongs to `worker` until `lease_until`.
CREATE TABLE jobs (
    id          INTEGER PRIMARY KEY AUTOINCREMENT,
    kind        TEXT NOT NULL,
    session     INTEGER NOT NULL REFERENCES sessions ON DELETE CASCADE,
    batch       INTEGER REFERENCES prompt_batches ON DELETE CASCADE,
    status      TEXT NOT NULL,
    attempts    INTEGER NOT NULL DEFAULT 0,
    again       INTEGER NOT NULL DEFAULT 0,
    error       TEXT,
    worker      TEXT,
    not_before  INTEGER NOT NULL DEFAULT 0,
    lease_until INTEGER,
    created_at  INTEGER NOT NULL,
    finished_at INTEGER
);
CREATE INDEX jobs_by_status ON jobs (status, not_before, id);
CREATE INDEX jobs_by_session ON jobs (session, kind, status);
-- One piece of work at a time for one thing: asked for again while it waits, it is the same work.
CREATE UNIQUE INDEX jobs_once ON jobs (kind, session, ifnull(batch, 0)) WHERE status IN ('pending', 'running', 'retrying');

-- What a session was given, when and why.
CREATE TABLE injections (
    id      INTEGER PRIMARY KEY,
    session INTEGER NOT NULL REFERENCES sessions ON DELETE CASCADE,
    at      INTEGER NOT NULL,
    moment  TEXT NOT NULL,
    tokens  INTEGER NOT NULL,
    items   TEXT NOT NULL
);
CREATE INDEX injections_by_session ON injections (session, at);

-- Every event that was ever accepted: delivered twice, stored once. `key` is the second key (see the protocol).
CREATE TABLE deliveries (
    event_id    BLOB PRIMARY KEY,
    session     INTEGER REFERENCES sessions ON DELETE CASCADE,
    key         BLOB,
    agent       TEXT NOT NULL,
    event_name  TEXT NOT NULL,
    captured_at INTEGER NOT NULL,
    boot_id     BLOB NOT NULL,
    boot_ns     INTEGER NOT NULL,
    flags       INTEGER NOT NULL,
    stored_at   INTEGER NOT NULL
) WITHOUT ROWID;
-- Deliveries without a second key are all different; the index also finds those of a session.
CREATE UNIQUE INDEX deliveries_by_key ON deliveries (session, key);

-- What came and was no event: kept as it came.
CREATE TABLE unparsed (
    event_id    BLOB PRIMARY KEY REFERENCES deliveries ON DELETE CASCADE,
    parse_error TEXT NOT NULL,
    payload     BLOB NOT NULL
) WITHOUT ROWID;

-- The order in which the index follows: a row was written (or is gone) under this number.
CREATE TABLE index_log (
    seq  INTEGER PRIMARY KEY AUTOINCREMENT,
    kind TEXT NOT NULL,
    row  INTEGER NOT NULL
);

-- The classic names, for people who query by hand.
CREATE VIEW sdk_sessions AS
    SELECT s.id, s.session_id AS sdk_session_id, s.agent, p.name AS project, s.status, s.title,
           s.started_at AS started_at_epoch, s.ended_at AS completed_at_epoch, s.prompts AS prompt_counter
    FROM sessions s JOIN projects p ON p.id = s.project;
CREATE VIEW user_prompts AS
    SELECT b.id, s.session_id AS sdk_session_id, b.prompt_number, b.prompt AS prompt_text,
           b.opened_at AS created_at_epoch
    FROM prompt_batches b JOIN sessions s ON s.id = b.session
    WHERE b.prompt_event IS NOT NULL;
