-- Schema 13: calls that are booked at the most they can have cost, for nobody knows what they did, are told apart.
ALTER TABLE spending ADD COLUMN assumed_calls INTEGER NOT NULL DEFAULT 0;
ALTER TABLE spending ADD COLUMN assumed_tokens INTEGER NOT NULL DEFAULT 0;
