-- Schema 7: where work was done.

-- What was checked out when the batch was last looked at, and the commit at its beginning; empty where it is not known.
-- A branch is named without `refs/heads/`; a commit without a branch is a detached HEAD.
ALTER TABLE prompt_batches ADD COLUMN branch TEXT;
ALTER TABLE prompt_batches ADD COLUMN head_commit TEXT;
ALTER TABLE prompt_batches ADD COLUMN base_commit TEXT;

-- Batches that made an observation again which another one had made before.
CREATE TABLE observation_batches (
    observation INTEGER NOT NULL REFERENCES observations ON DELETE CASCADE,
    batch       INTEGER NOT NULL REFERENCES prompt_batches ON DELETE CASCADE,
    PRIMARY KEY (observation, batch)
) WITHOUT ROWID;
CREATE INDEX observation_batches_by_batch ON observation_batches (batch);
