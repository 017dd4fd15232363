-- A change of another machine is listed and undone like one of this machine. `author` and `device` say who made it; without them it
-- was made here.
ALTER TABLE hand_changes ADD COLUMN author TEXT;
ALTER TABLE hand_changes ADD COLUMN device TEXT;

-- What was here and was forgotten elsewhere: who did it, what kind it was (`kind`) and when, and no word of it.
CREATE TABLE forgotten_elsewhere (
    id     INTEGER PRIMARY KEY AUTOINCREMENT,
    share  INTEGER NOT NULL REFERENCES shares ON DELETE CASCADE,
    kind   TEXT NOT NULL,
    author TEXT NOT NULL,
    device TEXT NOT NULL,
    at     INTEGER NOT NULL
);
CREATE INDEX forgotten_elsewhere_by_share ON forgotten_elsewhere (share);
