-- Schema 4: what the compression by models needs to know.

-- `stood_in`: the built-in compressor's result is stored, the model's is still owed. `origin`: who made the last result.
-- `cuts`: what a model was not shown, a JSON object.
ALTER TABLE jobs ADD COLUMN stood_in INTEGER NOT NULL DEFAULT 0;
ALTER TABLE jobs ADD COLUMN origin TEXT;
ALTER TABLE jobs ADD COLUMN cuts TEXT;

-- What models have cost. `project` is a project's row; what was spent stays spent when the project is forgotten.
CREATE TABLE spending (
    day        TEXT NOT NULL,
    project    INTEGER NOT NULL,
    backend    TEXT NOT NULL,
    calls      INTEGER NOT NULL,
    tokens_in  INTEGER NOT NULL,
    tokens_out INTEGER NOT NULL,
    micro_usd  INTEGER NOT NULL,
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
