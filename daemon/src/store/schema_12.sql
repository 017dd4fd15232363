-- Schema 12: what lies between the failing of a check and its passing, where that took several batches.

-- The files that a batch changed, as hashes, each with the last call that did and its place among the batch's steps.
-- `project` and `opened_at` are the batch's: the latest changes of a project are found without its batches.
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
