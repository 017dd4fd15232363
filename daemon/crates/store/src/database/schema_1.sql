-- Schema 1. Times are milliseconds since 1970 (UTC); event ids are 16 bytes; texts over a few kilobytes are zstd-compressed
-- blobs, shorter ones plain text; lists are JSON arrays.

-- What the program remembers of the database itself: the fingerprint of these tables, what is owed after forgetting.
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

-- One session of one agent. `life` counts its lives; `home_event` is the event that said where it runs; `resumed_from` is the
-- session that was cleared away for this one, at `cleared_at`; with `named_by` set, `title` is the agent's own.
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
    life_started_at INTEGER NOT NULL DEFAULT 0,
    resumed_from    TEXT,
    home_event      BLOB,
    cleared_at      INTEGER,
    named_by        BLOB,
    UNIQUE (agent, session_id)
);
CREATE INDEX sessions_by_id ON sessions (session_id);
CREATE INDEX sessions_by_project ON sessions (project);
CREATE INDEX sessions_by_status ON sessions (status);
CREATE INDEX sessions_by_root ON sessions (root);

-- One prompt and everything until the next. `seq` is its place in the session and never changes. `asked_in` is the turn that
-- the agent named with the prompt: where it is not `prompt_id`, the prompt was typed while that turn ran. `compressed_at` and
-- `flushed_upto` say when its observations were last made, and up to which activity. `branch`, `head_commit`: what was checked out
-- when it was last looked at (a branch without `refs/heads/`, a commit alone is a detached HEAD); `base_commit`: at its beginning.
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
    compressed_at  INTEGER,
    flushed_upto   INTEGER NOT NULL DEFAULT 0,
    branch         TEXT,
    head_commit    TEXT,
    base_commit    TEXT,
    asked_in       TEXT,
    -- How the built-in observations were chosen: 0 among those of the batch alone, else among the first so many batches of
    -- its session. NULL: the batch has no built-in result.
    chosen_among   INTEGER,
    UNIQUE (session, seq)
);
CREATE INDEX prompt_batches_unmade ON prompt_batches (id) WHERE compressed_at IS NULL;

-- `batch` is empty only until the session's first batch opens. `part_of`: for a call that was refused before it ran, the event
-- that told of it.
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
    at            INTEGER NOT NULL,
    part_of       BLOB
);
CREATE INDEX activities_by_batch ON activities (batch, at);
CREATE INDEX activities_by_session ON activities (session, at);
CREATE INDEX activities_by_call ON activities (session, tool_use_id) WHERE tool_use_id IS NOT NULL;

-- Calls of tools that are not recorded. Answers of the user and the task list tell a batch's compressor more; of other calls
-- `input` and `response` are empty.
CREATE TABLE asides (
    id        INTEGER PRIMARY KEY,
    batch     INTEGER NOT NULL REFERENCES prompt_batches ON DELETE CASCADE,
    event_id  BLOB NOT NULL UNIQUE,
    tool_name TEXT NOT NULL,
    input,
    response,
    at        INTEGER NOT NULL,
    prompt_id TEXT
);
CREATE INDEX asides_by_batch ON asides (batch);

-- What is remembered. `evidence` and `importance` are of all that it rests on, `own_evidence` and `own_importance` of its own batch
-- alone. `subject` is a hash of what it is a statement about, where that is certain.
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
    created_at     INTEGER NOT NULL,
    subject        BLOB,
    own_evidence   TEXT,
    own_importance INTEGER,
    -- What is compared with others, to find the thread of statements that it belongs to: hashes of its words.
    words          BLOB
);
CREATE INDEX observations_in_order ON observations (project, created_at);
CREATE INDEX observations_newest ON observations (project, status, created_at DESC);
CREATE INDEX observations_weightiest ON observations (project, status, importance DESC, created_at DESC);
CREATE INDEX observations_by_batch ON observations (batch);
CREATE INDEX observations_by_session ON observations (session);
CREATE INDEX observations_by_title ON observations (project, title);
CREATE INDEX observations_by_time ON observations (created_at);
CREATE INDEX observations_by_subject ON observations (project, subject) WHERE subject IS NOT NULL;

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

-- One summary a session, replaced as the session goes on.
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

-- Compression work. A pending job waits for `not_before`; a running one belongs to `worker` until `lease_until`. `stood_in`: the
-- built-in result is stored and the model's is still owed. `origin`: who made the last result. `cuts`: what a model was not shown.
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
    finished_at INTEGER,
    stood_in    INTEGER NOT NULL DEFAULT 0,
    origin      TEXT,
    cuts        TEXT
);
CREATE INDEX jobs_by_status ON jobs (status, not_before, id);
CREATE INDEX jobs_by_session ON jobs (session, kind, status);
CREATE UNIQUE INDEX jobs_once ON jobs (kind, session, ifnull(batch, 0)) WHERE status IN ('pending', 'running', 'retrying');
CREATE INDEX jobs_waiting ON jobs (stood_in, id) WHERE status IN ('pending', 'retrying');

-- What a session was given, when and why. `event_id` asked for it; `file`, relative to the project's folder, at the moment `file`.
CREATE TABLE injections (
    id       INTEGER PRIMARY KEY,
    session  INTEGER NOT NULL REFERENCES sessions ON DELETE CASCADE,
    at       INTEGER NOT NULL,
    moment   TEXT NOT NULL,
    tokens   INTEGER NOT NULL,
    items    TEXT NOT NULL,
    file     TEXT,
    event_id BLOB
);
CREATE INDEX injections_by_session ON injections (session, at);

-- Every event that was ever accepted: delivered twice, stored once. `key` is the second key (see the protocol). Deliveries without
-- one are all different.
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

-- What came and was no event: kept as it came, without secrets.
CREATE TABLE unparsed (
    event_id    BLOB PRIMARY KEY REFERENCES deliveries ON DELETE CASCADE,
    parse_error TEXT NOT NULL,
    payload     BLOB NOT NULL
) WITHOUT ROWID;

-- The order in which the index follows: a row was written, or is gone, under this number.
CREATE TABLE index_log (
    seq  INTEGER PRIMARY KEY AUTOINCREMENT,
    kind TEXT NOT NULL,
    row  INTEGER NOT NULL
);

-- The vectors of a document's passages, one after the other: a scale (four bytes, little endian) and a signed byte for each
-- dimension. `model` is the hash of the model that made them. An entry of `index_log` removes the document's.
CREATE TABLE vectors (
    id         INTEGER PRIMARY KEY AUTOINCREMENT,
    kind       TEXT NOT NULL,
    row        INTEGER NOT NULL,
    project    INTEGER NOT NULL REFERENCES projects ON DELETE CASCADE,
    model      BLOB NOT NULL,
    dimensions INTEGER NOT NULL,
    packed     BLOB NOT NULL,
    UNIQUE (kind, row)
);
CREATE INDEX vectors_by_project ON vectors (project, model, id);
CREATE INDEX vectors_by_model ON vectors (model, id);

-- The file that holds a project's vectors up to the id `newest`, `rows` of them; 0: there is none. `made` is another one
-- whenever the file, or what follows of it, is another one.
CREATE TABLE vector_files (
    project INTEGER PRIMARY KEY REFERENCES projects ON DELETE CASCADE,
    model   BLOB NOT NULL,
    made    TEXT NOT NULL,
    newest  INTEGER NOT NULL,
    rows    INTEGER NOT NULL
);

-- The ids of vectors that were removed after their project's file was made.
CREATE TABLE gone_vectors (
    seq     INTEGER PRIMARY KEY AUTOINCREMENT,
    project INTEGER NOT NULL REFERENCES projects ON DELETE CASCADE,
    id      INTEGER NOT NULL
);
CREATE INDEX gone_vectors_by_project ON gone_vectors (project, id);

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
CREATE UNIQUE INDEX life_events_once ON life_events (session, life, name) WHERE name IN ('session_start', 'session_end');

-- Calls that have begun and have no result yet. `task_kind`, `task`: what a call gives to a subagent to do.
CREATE TABLE running_calls (
    session   INTEGER NOT NULL REFERENCES sessions ON DELETE CASCADE,
    call_id   TEXT NOT NULL,
    subagent  TEXT,
    task_kind TEXT,
    task      TEXT,
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
    event_id      BLOB,
    prompt_id     TEXT,
    UNIQUE (session, agent_id)
);
CREATE INDEX subagents_by_batch ON subagents (batch);

-- A conversation that was shortened. `summary` is the agent's own. `event_id` and `prompt_id` are of the event that told of its
-- beginning, `end_event` and `end_prompt_id` of the one that told of its end.
CREATE TABLE compactions (
    id                  INTEGER PRIMARY KEY,
    session             INTEGER NOT NULL REFERENCES sessions ON DELETE CASCADE,
    batch               INTEGER REFERENCES prompt_batches ON DELETE CASCADE,
    trigger             TEXT NOT NULL,
    message_count       INTEGER NOT NULL,
    messages_since_last INTEGER,
    summary,
    started_at          INTEGER,
    ended_at            INTEGER,
    event_id            BLOB,
    prompt_id           TEXT,
    end_event           BLOB,
    end_prompt_id       TEXT
);
CREATE INDEX compactions_by_session ON compactions (session, id);

-- One plan for each file of a session, and its task list (`kind` 'tasks'). A plan without a file has the path ''. `batch` changed it
-- last. `tasks` is all that was told of a task list, a JSON object: what is heard of late takes its place in it.
CREATE TABLE plans (
    id         INTEGER PRIMARY KEY AUTOINCREMENT,
    session    INTEGER NOT NULL REFERENCES sessions ON DELETE CASCADE,
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
    UNIQUE (session, kind, path)
);
CREATE INDEX plans_by_path ON plans (path);

-- What models have cost. `project` is a project's row; what was spent stays spent when the project is forgotten. `assumed_*`: calls
-- booked at the most they can have cost, because nobody knows what they did.
CREATE TABLE spending (
    day            TEXT NOT NULL,
    project        INTEGER NOT NULL,
    backend        TEXT NOT NULL,
    calls          INTEGER NOT NULL,
    tokens_in      INTEGER NOT NULL,
    tokens_out     INTEGER NOT NULL,
    micro_usd      INTEGER NOT NULL,
    assumed_calls  INTEGER NOT NULL DEFAULT 0,
    assumed_tokens INTEGER NOT NULL DEFAULT 0,
    PRIMARY KEY (day, project, backend)
) WITHOUT ROWID;

-- Calls under way, at the most that they can cost. One that its daemon did not live to settle is booked in full.
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

-- What was taken of this session before it was forgotten is not stored any more. `name` is a hash of agent and id.
CREATE TABLE forgotten_sessions (
    name    BLOB PRIMARY KEY,
    at      INTEGER NOT NULL,
    boot_id BLOB NOT NULL,
    boot_ns INTEGER NOT NULL
) WITHOUT ROWID;

-- An observation that was forgotten while its session stays, and that must not be made again. `title` is a hash; `evidence` are ids
-- of events.
CREATE TABLE forgotten_observations (
    observation INTEGER NOT NULL,
    session     INTEGER NOT NULL REFERENCES sessions ON DELETE CASCADE,
    batch       INTEGER REFERENCES prompt_batches ON DELETE CASCADE,
    title       BLOB NOT NULL,
    evidence    TEXT NOT NULL,
    PRIMARY KEY (session, observation)
) WITHOUT ROWID;
CREATE INDEX forgotten_observations_by_batch ON forgotten_observations (batch);

-- Calls that wrote a file as a whole: what was known of it before is about another file.
CREATE TABLE file_rewrites (
    activity INTEGER PRIMARY KEY REFERENCES activities ON DELETE CASCADE,
    path     TEXT NOT NULL
);
CREATE INDEX file_rewrites_by_path ON file_rewrites (path);

-- Batches that made an observation again which another one had made before.
CREATE TABLE observation_batches (
    observation INTEGER NOT NULL REFERENCES observations ON DELETE CASCADE,
    batch       INTEGER NOT NULL REFERENCES prompt_batches ON DELETE CASCADE,
    evidence    TEXT,
    importance  INTEGER,
    PRIMARY KEY (observation, batch)
) WITHOUT ROWID;
CREATE INDEX observation_batches_by_batch ON observation_batches (batch);

-- The batches that made a plan or carry it out.
CREATE TABLE plan_batches (
    plan      INTEGER NOT NULL REFERENCES plans ON DELETE CASCADE,
    batch     INTEGER NOT NULL REFERENCES prompt_batches ON DELETE CASCADE,
    event_id  BLOB NOT NULL,
    prompt_id TEXT,
    UNIQUE (plan, batch, event_id)
);
CREATE INDEX plan_batches_by_batch ON plan_batches (batch);

-- Why an observation holds no longer: a newer one took its place, the work of a batch settled it, or the user said so (neither).
-- `undone`: the user says that it holds all the same. `status` and `superseded_by` follow from the rows that are not undone.
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

-- What the work of a batch has settled, whatever observations there are of it. `subject` and the names in `files` are hashes.
CREATE TABLE settlements (
    batch    INTEGER NOT NULL REFERENCES prompt_batches ON DELETE CASCADE,
    subject  BLOB NOT NULL,
    how      TEXT NOT NULL,
    files    TEXT NOT NULL,
    evidence TEXT NOT NULL,
    PRIMARY KEY (batch, subject)
) WITHOUT ROWID;
CREATE INDEX settlements_by_subject ON settlements (subject);

-- The files that a batch changed, as hashes, each with the last call that did and its place among the batch's steps. `project` and
-- `opened_at` are the batch's: the latest changes of a project are found without its batches.
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

-- The checks that a batch left failing, each with its last run and the place of that. `subject` is a hash.
CREATE TABLE failings (
    batch   INTEGER NOT NULL REFERENCES prompt_batches ON DELETE CASCADE,
    subject BLOB NOT NULL,
    step    INTEGER NOT NULL,
    event   TEXT NOT NULL,
    PRIMARY KEY (batch, subject)
) WITHOUT ROWID;
CREATE INDEX failings_by_subject ON failings (subject);

-- The classic names, for people who query by hand.
CREATE VIEW sdk_sessions AS
    SELECT s.id, s.session_id AS sdk_session_id, s.session_id AS claude_session_id, s.agent, p.name AS project,
           s.status, s.title,
           (SELECT b.prompt FROM prompt_batches b WHERE b.session = s.id AND b.prompt IS NOT NULL
            ORDER BY b.seq LIMIT 1) AS first_user_prompt,
           s.started_at AS started_at_epoch, s.ended_at AS completed_at_epoch, s.prompts AS prompt_counter
    FROM sessions s JOIN projects p ON p.id = s.project;

CREATE VIEW user_prompts AS
    SELECT b.id, s.session_id AS sdk_session_id, s.session_id AS claude_session_id, b.prompt_number,
           b.prompt AS prompt_text, b.opened_at AS created_at_epoch
    FROM prompt_batches b JOIN sessions s ON s.id = b.session
    WHERE b.prompt_event IS NOT NULL OR b.prompt IS NOT NULL;
