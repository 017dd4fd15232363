-- A session that was handed over to the next session of an agent in its project. What is told is read from the session's rows when
-- it is told, so there is no text to forget. `given`: the event that asked for it.
CREATE TABLE handoffs (
    id      INTEGER PRIMARY KEY AUTOINCREMENT,
    session INTEGER NOT NULL REFERENCES sessions ON DELETE CASCADE,
    agent   TEXT NOT NULL,
    at      INTEGER NOT NULL,
    given   BLOB
);
CREATE INDEX handoffs_by_session ON handoffs (session);
CREATE INDEX handoffs_waiting ON handoffs (agent) WHERE given IS NULL;
