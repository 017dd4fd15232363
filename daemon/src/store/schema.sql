-- Made of the steps; `RECALL_WRITE_SCHEMA=1 cargo test schema` makes it anew.

CREATE TABLE meta (
    key   TEXT PRIMARY KEY,
    value NOT NULL
) WITHOUT ROWID;

CREATE TABLE projects (
    id         INTEGER PRIMARY KEY,
    key        TEXT NOT NULL UNIQUE,
    name       TEXT NOT NULL,
    created_at INTEGER NOT NULL
);

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
    suspended_at    INTEGER, life_started_at INTEGER NOT NULL DEFAULT 0, resumed_from TEXT, home_event BLOB, cleared_at INTEGER, named_by BLOB,
    UNIQUE (agent, session_id)
);

CREATE INDEX sessions_by_id ON sessions (session_id);

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
    closed_at      INTEGER, compressed_at INTEGER, flushed_upto INTEGER NOT NULL DEFAULT 0, branch TEXT, head_commit TEXT, base_commit TEXT, asked_in TEXT,
    UNIQUE (session, seq)
);

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
, part_of BLOB);

CREATE INDEX activities_by_batch ON activities (batch, at);

CREATE INDEX activities_by_session ON activities (session, at);

CREATE TABLE asides (
    id        INTEGER PRIMARY KEY,
    batch     INTEGER NOT NULL REFERENCES prompt_batches ON DELETE CASCADE,
    event_id  BLOB NOT NULL UNIQUE,
    tool_name TEXT NOT NULL,
    input,
    response,
    at        INTEGER NOT NULL
, prompt_id TEXT);

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
, subject BLOB, own_evidence TEXT, own_importance INTEGER);

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
, stood_in INTEGER NOT NULL DEFAULT 0, origin TEXT, cuts TEXT);

CREATE INDEX jobs_by_status ON jobs (status, not_before, id);

CREATE INDEX jobs_by_session ON jobs (session, kind, status);

CREATE UNIQUE INDEX jobs_once ON jobs (kind, session, ifnull(batch, 0)) WHERE status IN ('pending', 'running', 'retrying');

CREATE TABLE injections (
    id      INTEGER PRIMARY KEY,
    session INTEGER NOT NULL REFERENCES sessions ON DELETE CASCADE,
    at      INTEGER NOT NULL,
    moment  TEXT NOT NULL,
    tokens  INTEGER NOT NULL,
    items   TEXT NOT NULL
, file TEXT, event_id BLOB);

CREATE INDEX injections_by_session ON injections (session, at);

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

CREATE UNIQUE INDEX deliveries_by_key ON deliveries (session, key);

CREATE TABLE unparsed (
    event_id    BLOB PRIMARY KEY REFERENCES deliveries ON DELETE CASCADE,
    parse_error TEXT NOT NULL,
    payload     BLOB NOT NULL
) WITHOUT ROWID;

CREATE TABLE index_log (
    seq  INTEGER PRIMARY KEY AUTOINCREMENT,
    kind TEXT NOT NULL,
    row  INTEGER NOT NULL
);

CREATE VIEW sdk_sessions AS
    SELECT s.id, s.session_id AS sdk_session_id, s.agent, p.name AS project, s.status, s.title,
           s.started_at AS started_at_epoch, s.ended_at AS completed_at_epoch, s.prompts AS prompt_counter
    FROM sessions s JOIN projects p ON p.id = s.project;

CREATE VIEW user_prompts AS
    SELECT b.id, s.session_id AS sdk_session_id, b.prompt_number, b.prompt AS prompt_text,
           b.opened_at AS created_at_epoch
    FROM prompt_batches b JOIN sessions s ON s.id = b.session
    WHERE b.prompt_event IS NOT NULL;

CREATE INDEX sessions_by_project ON sessions (project);

CREATE INDEX sessions_by_status ON sessions (status);

CREATE INDEX activities_by_call ON activities (session, tool_use_id) WHERE tool_use_id IS NOT NULL;

CREATE INDEX prompt_batches_unmade ON prompt_batches (id) WHERE compressed_at IS NULL;

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

CREATE TABLE running_calls (
    session  INTEGER NOT NULL REFERENCES sessions ON DELETE CASCADE,
    call_id  TEXT NOT NULL,
    subagent TEXT, task_kind TEXT, task TEXT,
    PRIMARY KEY (session, call_id)
) WITHOUT ROWID;

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
    ended_at      INTEGER, event_id BLOB, prompt_id TEXT,
    UNIQUE (session, agent_id)
);

CREATE INDEX subagents_by_batch ON subagents (batch);

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
, event_id BLOB, prompt_id TEXT, end_event BLOB, end_prompt_id TEXT);

CREATE INDEX compactions_by_session ON compactions (session, id);

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
    updated_at INTEGER NOT NULL, tasks TEXT,
    UNIQUE (session, kind, path)
);

CREATE INDEX plans_by_path ON plans (path);

CREATE TABLE spending (
    day        TEXT NOT NULL,
    project    INTEGER NOT NULL,
    backend    TEXT NOT NULL,
    calls      INTEGER NOT NULL,
    tokens_in  INTEGER NOT NULL,
    tokens_out INTEGER NOT NULL,
    micro_usd  INTEGER NOT NULL, assumed_calls INTEGER NOT NULL DEFAULT 0, assumed_tokens INTEGER NOT NULL DEFAULT 0,
    PRIMARY KEY (day, project, backend)
) WITHOUT ROWID;

CREATE TABLE reservations (
    id         INTEGER PRIMARY KEY AUTOINCREMENT,
    day        TEXT NOT NULL,
    project    INTEGER NOT NULL,
    backend    TEXT NOT NULL,
    job        INTEGER NOT NULL,
    tokens_in  INTEGER NOT NULL,
    tokens_out INTEGER NOT NULL,
    micro_usd  INTEGER NOT NULL
);

CREATE TABLE forgotten_sessions (
    name    BLOB PRIMARY KEY,
    at      INTEGER NOT NULL,
    boot_id BLOB NOT NULL,
    boot_ns INTEGER NOT NULL
) WITHOUT ROWID;

CREATE TABLE forgotten_observations (
    observation INTEGER NOT NULL,
    session     INTEGER NOT NULL REFERENCES sessions ON DELETE CASCADE,
    batch       INTEGER REFERENCES prompt_batches ON DELETE CASCADE,
    title       BLOB NOT NULL,
    evidence    TEXT NOT NULL,
    PRIMARY KEY (session, observation)
) WITHOUT ROWID;

CREATE INDEX forgotten_observations_by_batch ON forgotten_observations (batch);

CREATE TABLE file_rewrites (
    activity INTEGER PRIMARY KEY REFERENCES activities ON DELETE CASCADE,
    path     TEXT NOT NULL
);

CREATE INDEX file_rewrites_by_path ON file_rewrites (path);

CREATE TABLE observation_batches (
    observation INTEGER NOT NULL REFERENCES observations ON DELETE CASCADE,
    batch       INTEGER NOT NULL REFERENCES prompt_batches ON DELETE CASCADE, evidence TEXT, importance INTEGER,
    PRIMARY KEY (observation, batch)
) WITHOUT ROWID;

CREATE INDEX observation_batches_by_batch ON observation_batches (batch);

CREATE TABLE "plan_batches" (
    plan      INTEGER NOT NULL REFERENCES plans ON DELETE CASCADE,
    batch     INTEGER NOT NULL REFERENCES prompt_batches ON DELETE CASCADE,
    event_id  BLOB NOT NULL,
    prompt_id TEXT,
    UNIQUE (plan, batch, event_id)
);

CREATE INDEX plan_batches_by_batch ON plan_batches (batch);

CREATE INDEX observations_by_subject ON observations (project, subject) WHERE subject IS NOT NULL;

CREATE TABLE lineage (
    id       INTEGER PRIMARY KEY,
    older    INTEGER NOT NULL REFERENCES observations ON DELETE CASCADE,
    newer    INTEGER REFERENCES observations ON DELETE CASCADE,
    batch    INTEGER REFERENCES prompt_batches ON DELETE CASCADE,
    reason   TEXT NOT NULL,
    evidence TEXT NOT NULL,
    undone   INTEGER NOT NULL DEFAULT 0
);

CREATE UNIQUE INDEX lineage_once ON lineage (older, ifnull(newer, 0), ifnull(batch, 0));

CREATE INDEX lineage_by_newer ON lineage (newer) WHERE newer IS NOT NULL;

CREATE INDEX lineage_by_batch ON lineage (batch) WHERE batch IS NOT NULL;

CREATE TABLE settlements (
    batch    INTEGER NOT NULL REFERENCES prompt_batches ON DELETE CASCADE,
    subject  BLOB NOT NULL,
    how      TEXT NOT NULL,
    files    TEXT NOT NULL,
    evidence TEXT NOT NULL,
    PRIMARY KEY (batch, subject)
) WITHOUT ROWID;

CREATE INDEX settlements_by_subject ON settlements (subject);

CREATE INDEX jobs_waiting ON jobs (stood_in, id) WHERE status IN ('pending', 'retrying');

CREATE TABLE changes (
    batch     INTEGER NOT NULL REFERENCES prompt_batches ON DELETE CASCADE,
    file      TEXT NOT NULL,
    step      INTEGER NOT NULL,
    event     TEXT NOT NULL,
    project   INTEGER NOT NULL REFERENCES projects ON DELETE CASCADE,
    opened_at INTEGER NOT NULL,
    PRIMARY KEY (batch, file)
) WITHOUT ROWID;

CREATE INDEX changes_in_order ON changes (project, opened_at);

CREATE TABLE failings (
    batch   INTEGER NOT NULL REFERENCES prompt_batches ON DELETE CASCADE,
    subject BLOB NOT NULL,
    step    INTEGER NOT NULL,
    event   TEXT NOT NULL,
    PRIMARY KEY (batch, subject)
) WITHOUT ROWID;

CREATE INDEX failings_by_subject ON failings (subject);

CREATE INDEX sessions_by_root ON sessions (root);
