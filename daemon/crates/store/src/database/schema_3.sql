-- A project whose notes this machine shares through a remote. `space` is its name there, `device` this data folder's name at its
-- last round. `author` and `device_name` say who wrote what is logged here. `logged_upto`: observations up to this row were logged.
-- `marker`: the remote's own id, so that another folder at its path is not taken for it.
CREATE TABLE shares (
    id          INTEGER PRIMARY KEY AUTOINCREMENT,
    project     INTEGER NOT NULL REFERENCES projects ON DELETE CASCADE,
    remote      TEXT NOT NULL,
    space       TEXT NOT NULL,
    device      TEXT NOT NULL,
    author      TEXT NOT NULL,
    device_name TEXT NOT NULL,
    inject      INTEGER NOT NULL,
    personal    INTEGER NOT NULL,
    marker      TEXT,
    logged_upto INTEGER NOT NULL DEFAULT 0,
    UNIQUE (project, remote)
);

-- What this machine changed of a share's notes, numbered without gaps. A hash covers the entry and the one before it, and of the
-- body only its hash: a body may be emptied. `held`: why it does not leave. `emptied`: the remote still has the body.
CREATE TABLE sync_log (
    share     INTEGER NOT NULL REFERENCES shares ON DELETE CASCADE,
    seq       INTEGER NOT NULL,
    kind      TEXT NOT NULL,
    item      TEXT NOT NULL,
    at        INTEGER NOT NULL,
    body      TEXT,
    body_hash TEXT NOT NULL,
    hash      TEXT NOT NULL,
    held      TEXT,
    emptied   INTEGER NOT NULL DEFAULT 0,
    PRIMARY KEY (share, seq)
) WITHOUT ROWID;
CREATE INDEX sync_log_by_item ON sync_log (share, item);

-- What all machines have said of a note, merged, as JSON. `row`: the observation here. Without one it waits for the rest of its
-- fields, was removed, or is not wanted here (`unwanted`).
CREATE TABLE sync_items (
    share    INTEGER NOT NULL REFERENCES shares ON DELETE CASCADE,
    item     TEXT NOT NULL,
    state    TEXT NOT NULL,
    row      INTEGER,
    unwanted INTEGER NOT NULL DEFAULT 0,
    PRIMARY KEY (share, item)
) WITHOUT ROWID;
CREATE INDEX sync_items_by_row ON sync_items (row) WHERE row IS NOT NULL;

-- How far each other machine's log was read.
CREATE TABLE sync_heads (
    share   INTEGER NOT NULL REFERENCES shares ON DELETE CASCADE,
    device  TEXT NOT NULL,
    author  TEXT NOT NULL,
    name    TEXT NOT NULL,
    seq     INTEGER NOT NULL,
    hash    TEXT NOT NULL,
    at      INTEGER NOT NULL,
    refused INTEGER NOT NULL DEFAULT 0,
    PRIMARY KEY (share, device)
) WITHOUT ROWID;

-- Entries of kinds that this version does not know. A later one applies them.
CREATE TABLE sync_parked (
    share  INTEGER NOT NULL REFERENCES shares ON DELETE CASCADE,
    device TEXT NOT NULL,
    seq    INTEGER NOT NULL,
    kind   TEXT NOT NULL,
    item   TEXT NOT NULL,
    at     INTEGER NOT NULL,
    body   TEXT,
    PRIMARY KEY (share, device, seq)
) WITHOUT ROWID;

-- A note of another machine: the share it came by, who wrote it, and where.
ALTER TABLE observations ADD COLUMN share INTEGER REFERENCES shares;
ALTER TABLE observations ADD COLUMN author TEXT;
ALTER TABLE observations ADD COLUMN device TEXT;
CREATE INDEX observations_of_others ON observations (share) WHERE share IS NOT NULL;
