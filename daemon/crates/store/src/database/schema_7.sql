-- What others say of an item reads like instructions to a model: `why` in a few words of our own. It has no row, or the row stays as
-- it was, until a person has kept these texts (`texts`: their hash). Other texts of the same item get another number.
CREATE TABLE quarantine (
    id      INTEGER PRIMARY KEY AUTOINCREMENT,
    share   INTEGER NOT NULL REFERENCES shares ON DELETE CASCADE,
    item    TEXT NOT NULL,
    why     TEXT NOT NULL,
    texts   TEXT NOT NULL,
    verdict TEXT CHECK (verdict IN ('kept', 'rejected')),
    at      INTEGER NOT NULL,
    UNIQUE (share, item)
);
