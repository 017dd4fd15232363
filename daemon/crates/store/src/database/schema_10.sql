-- What decides how notes of several machines replace each other. `work`: the session of another machine's note, by the name that
-- all machines give it. `by_hand`: a person wrote it, and the origin does not say so, because that was elsewhere. `stands_beside`: the
-- uuids of newer notes that do not replace it, because a person elsewhere said so.
ALTER TABLE observations ADD COLUMN work TEXT;
ALTER TABLE observations ADD COLUMN by_hand INTEGER NOT NULL DEFAULT 0;
ALTER TABLE observations ADD COLUMN stands_beside TEXT;

DROP INDEX observations_threads;
CREATE INDEX observations_threads
    ON observations (project, created_at DESC, origin, session, words, subject, share, work, by_hand)
    WHERE subject IS NULL AND words IS NOT NULL;
