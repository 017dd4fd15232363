-- Prompts and final answers leave with a share that says so. `..._logged_upto`: as `logged_upto`.
ALTER TABLE shares ADD COLUMN prompts INTEGER NOT NULL DEFAULT 0;
ALTER TABLE shares ADD COLUMN answers INTEGER NOT NULL DEFAULT 0;
ALTER TABLE shares ADD COLUMN prompts_logged_upto INTEGER NOT NULL DEFAULT 0;
ALTER TABLE shares ADD COLUMN answers_logged_upto INTEGER NOT NULL DEFAULT 0;

-- A prompt or an answer of another machine (`kind`). It has no session here, and no session is told of it unasked. In `sync_items`
-- its number is negative, because there a prompt or an answer of this machine has the number of its batch.
CREATE TABLE said_elsewhere (
    id         INTEGER PRIMARY KEY AUTOINCREMENT,
    share      INTEGER NOT NULL REFERENCES shares,
    uuid       TEXT NOT NULL UNIQUE,
    kind       TEXT NOT NULL CHECK (kind IN ('prompt', 'response')),
    text       NOT NULL,
    author     TEXT NOT NULL,
    device     TEXT NOT NULL,
    created_at INTEGER NOT NULL
);
CREATE INDEX said_elsewhere_by_share ON said_elsewhere (share, author);
CREATE INDEX said_elsewhere_by_time ON said_elsewhere (created_at);
