-- Schema 2. Every event sets its session's time of the last event: an index that holds it is rewritten with every event,
-- and there are too few sessions for it to help anybody.

DROP INDEX sessions_by_project;
DROP INDEX sessions_by_status;
CREATE INDEX sessions_by_project ON sessions (project);
CREATE INDEX sessions_by_status ON sessions (status);
