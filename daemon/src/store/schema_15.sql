-- Schema 15: the event with which the agent named the session. Where there is one, `title` is the agent's.
ALTER TABLE sessions ADD COLUMN named_by BLOB;
