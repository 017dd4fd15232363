-- Schema 9: what became of what an observation says.

-- A hash of what it is a statement about, where that can be told for sure.
ALTER TABLE observations ADD COLUMN subject BLOB;
CREATE INDEX observations_by_subject ON observations (project, subject) WHERE subject IS NOT NULL;

-- Why an observation holds no longer: a newer one took its place, the work of a batch settled it, or the user said so
-- (neither). `evidence` are ids of events. `undone`: the user says that it holds all the same. An observation's
-- `status` and `superseded_by` follow from the rows that are not undone.
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
INSERT INTO lineage (older, reason, evidence) SELECT id, 'user', '[]' FROM observations WHERE status = 'resolved';

-- What the work of a batch has settled, whatever observations there are of it. `subject` and the names in `files` are
-- hashes.
CREATE TABLE settlements (
    batch    INTEGER NOT NULL REFERENCES prompt_batches ON DELETE CASCADE,
    subject  BLOB NOT NULL,
    how      TEXT NOT NULL,
    files    TEXT NOT NULL,
    evidence TEXT NOT NULL,
    PRIMARY KEY (batch, subject)
) WITHOUT ROWID;
CREATE INDEX settlements_by_subject ON settlements (subject);
