-- Schema 11: what depends on when things happened, and not on when they were heard of.

-- The event that said where the session runs: an earlier one that arrives late knows better.
ALTER TABLE sessions ADD COLUMN home_event BLOB;

-- What an observation rests on by its own batch alone, and how weighty it is by that; `evidence` and `importance` are all
-- of it. Of what was made before nobody knows whose is what.
ALTER TABLE observations ADD COLUMN own_evidence TEXT;
ALTER TABLE observations ADD COLUMN own_importance INTEGER;
ALTER TABLE observation_batches ADD COLUMN evidence TEXT;
ALTER TABLE observation_batches ADD COLUMN importance INTEGER;

-- The event that asked for what was given. What nobody heard was not given.
ALTER TABLE injections ADD COLUMN event_id BLOB;

-- All that was told of a task list, a JSON object: what is heard of late takes its place in it.
ALTER TABLE plans ADD COLUMN tasks TEXT;

-- When the session began in the place of one that was cleared away.
ALTER TABLE sessions ADD COLUMN cleared_at INTEGER;

-- The event that told of a compaction's end, and its turn: `event_id` and `prompt_id` are those of its beginning, if that is known.
ALTER TABLE compactions ADD COLUMN end_event BLOB;
ALTER TABLE compactions ADD COLUMN end_prompt_id TEXT;
