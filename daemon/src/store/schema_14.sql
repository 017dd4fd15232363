-- Schema 14: what a running call gives to a subagent to do, until the call is over.
ALTER TABLE running_calls ADD COLUMN task_kind TEXT;
ALTER TABLE running_calls ADD COLUMN task TEXT;
