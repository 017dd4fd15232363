-- Schema 8: what it takes to put things in their places whatever the order in which they are heard of.

-- The turn that the agent named with the prompt. Where it is not `prompt_id`, the prompt was typed while it ran.
ALTER TABLE prompt_batches ADD COLUMN asked_in TEXT;
UPDATE prompt_batches SET asked_in = iif(source = 'queued', '', prompt_id) WHERE prompt_event IS NOT NULL;

-- The event that tells when something was done, and the turn by the agent's own word.
ALTER TABLE asides ADD COLUMN prompt_id TEXT;
ALTER TABLE subagents ADD COLUMN event_id BLOB;
ALTER TABLE subagents ADD COLUMN prompt_id TEXT;
ALTER TABLE compactions ADD COLUMN event_id BLOB;
ALTER TABLE compactions ADD COLUMN prompt_id TEXT;

-- A batch may work on a plan several times. Of links that were made before nobody knows the event.
CREATE TABLE plan_work (
    plan      INTEGER NOT NULL REFERENCES plans ON DELETE CASCADE,
    batch     INTEGER NOT NULL REFERENCES prompt_batches ON DELETE CASCADE,
    event_id  BLOB NOT NULL,
    prompt_id TEXT,
    UNIQUE (plan, batch, event_id)
);
INSERT INTO plan_work (plan, batch, event_id) SELECT plan, batch, x'' FROM plan_batches;
DROP TABLE plan_batches;
ALTER TABLE plan_work RENAME TO plan_batches;
CREATE INDEX plan_batches_by_batch ON plan_batches (batch);
