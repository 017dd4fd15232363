-- Schema 5. What was forgotten stays forgotten: enough to know it again, with nothing to read in it.

-- What was taken of this session before it was forgotten is not stored any more. `name` is a hash of agent and id.
CREATE TABLE forgotten_sessions (
    name    BLOB PRIMARY KEY,
    at      INTEGER NOT NULL,
    boot_id BLOB NOT NULL,
    boot_ns INTEGER NOT NULL
) WITHOUT ROWID;

-- An observation that was forgotten while its session stays, and whoever compresses the session must not make again.
-- `title` is a hash; `evidence` are ids of events, which stand for nothing by themselves.
CREATE TABLE forgotten_observations (
    observation INTEGER NOT NULL,
    session     INTEGER NOT NULL REFERENCES sessions ON DELETE CASCADE,
    batch       INTEGER REFERENCES prompt_batches ON DELETE CASCADE,
    title       BLOB NOT NULL,
    evidence    TEXT NOT NULL,
    PRIMARY KEY (session, observation)
) WITHOUT ROWID;
CREATE INDEX forgotten_observations_by_batch ON forgotten_observations (batch);
