-- Notes that arrived or changed, and subjects of such notes, that are not compared with others yet. A note may be gone meanwhile.
CREATE TABLE sync_uncompared (
    id          INTEGER PRIMARY KEY,
    share       INTEGER NOT NULL REFERENCES shares ON DELETE CASCADE,
    observation INTEGER,
    subject     BLOB
);
CREATE INDEX sync_uncompared_by_share ON sync_uncompared (share);

-- Another part of a summary may be injected than before: the beginning of each field. So summaries are indexed and embedded again.
INSERT INTO gone_vectors (project, id) SELECT project, id FROM vectors WHERE kind = 'summary';
DELETE FROM vectors WHERE kind = 'summary';
INSERT INTO index_log (kind, row) SELECT 'summary', id FROM session_summaries;
