-- Notes that arrived or changed, and subjects of such notes, that are not compared with others yet. A note may be gone meanwhile.
CREATE TABLE sync_uncompared (
    id          INTEGER PRIMARY KEY,
    share       INTEGER NOT NULL REFERENCES shares ON DELETE CASCADE,
    observation INTEGER,
    subject     BLOB
);
CREATE INDEX sync_uncompared_by_share ON sync_uncompared (share);
