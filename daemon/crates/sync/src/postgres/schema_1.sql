-- Which recall made this schema, and the database's own id, so that another database at its address is not taken for it.
CREATE TABLE recall.meta (
    is_only boolean PRIMARY KEY DEFAULT true CHECK (is_only),
    schema  integer NOT NULL,
    id      text NOT NULL,
    made_at timestamptz NOT NULL DEFAULT now()
);

-- A machine in a project's space: the last entry of its log, and how far it says that it has read the others. `login`: who
-- may write for it.
CREATE TABLE recall.device (
    space    text NOT NULL,
    device   text NOT NULL,
    login    name NOT NULL,
    seq      bigint NOT NULL DEFAULT 0,
    hash     text NOT NULL DEFAULT '',
    progress text,
    seen_at  timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (space, device)
);

-- Entries that were appended together. `hash` is that of the last one, and the signature covers it and the header.
CREATE TABLE recall.segment (
    space     text NOT NULL,
    device    text NOT NULL,
    first     bigint NOT NULL,
    last      bigint NOT NULL,
    header    text NOT NULL,
    hash      text NOT NULL,
    signature text NOT NULL,
    bytes     bigint NOT NULL,
    PRIMARY KEY (space, device, last)
);

-- An entry of a log. A body is emptied when its note is forgotten.
CREATE TABLE recall.record (
    space     text NOT NULL,
    device    text NOT NULL,
    seq       bigint NOT NULL,
    kind      text NOT NULL,
    item      text NOT NULL,
    at        bigint NOT NULL,
    body      text,
    body_hash text NOT NULL,
    PRIMARY KEY (space, device, seq)
) PARTITION BY HASH (space);

DO $$
BEGIN
    FOR part IN 0..15 LOOP
        EXECUTE format(
            'CREATE TABLE recall.record_%s PARTITION OF recall.record FOR VALUES WITH (MODULUS 16, REMAINDER %s)',
            part, part);
    END LOOP;
END $$;

-- Whatever somebody grants on the tables by mistake: only the functions' owner sees a row.
DO $$
DECLARE
    named text;
BEGIN
    FOREACH named IN ARRAY ARRAY['meta', 'device', 'segment', 'record'] LOOP
        EXECUTE format('ALTER TABLE recall.%I ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY', named);
        EXECUTE format('CREATE POLICY of_the_functions ON recall.%I TO recall_owner USING (true)', named);
    END LOOP;
    FOR part IN 0..15 LOOP
        EXECUTE format('ALTER TABLE recall.%I ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY', 'record_' || part);
    END LOOP;
END $$;

INSERT INTO recall.meta (schema, id) VALUES (1, replace(gen_random_uuid()::text, '-', ''));
