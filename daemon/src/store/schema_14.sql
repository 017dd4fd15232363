-- Schema 14: what a running call gives to a subagent to do, until the call is over.
ALTER TABLE running_calls ADD COLUMN task_kind TEXT;
ALTER TABLE running_calls ADD COLUMN task TEXT;

-- Who worked in a folder that is no more, newest last.
CREATE INDEX sessions_by_root ON sessions (root);
