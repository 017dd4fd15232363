-- What machines may do. They touch no table: each function runs as its owner, with a fixed path, and within one
-- transaction, so that a pooler may give each call another session.

CREATE OR REPLACE FUNCTION recall.enter(OUT schema integer, OUT id text)
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$ SELECT m.schema, m.id FROM recall.meta m $$;

-- Every machine in a space. `progress_mark` changes when what it says of its progress does.
CREATE OR REPLACE FUNCTION recall.heads(p_space text)
RETURNS TABLE (device text, seq bigint, hash text, progress_mark text)
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
    SELECT d.device, d.seq, d.hash, encode(sha256(convert_to(d.progress, 'UTF8')), 'hex')
    FROM recall.device d WHERE d.space = p_space ORDER BY d.device
$$;

CREATE OR REPLACE FUNCTION recall.progress(p_space text, p_devices text[])
RETURNS TABLE (device text, progress text)
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
    SELECT d.device, d.progress FROM recall.device d
    WHERE d.space = p_space AND d.device = ANY (p_devices) AND d.progress IS NOT NULL
$$;

-- What follows an entry of a log: whole segments, at least one, up to 500 entries or 1 MiB.
CREATE OR REPLACE FUNCTION recall.pull(p_space text, p_device text, p_after bigint)
RETURNS TABLE (header text, hash text, signature text, first bigint, kinds text[], items text[], times bigint[],
               bodies text[], body_hashes text[])
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
    WITH next AS (
        SELECT * FROM recall.segment s
        WHERE s.space = p_space AND s.device = p_device AND s.last > p_after ORDER BY s.last LIMIT 500
    ), page AS (
        SELECT n.*, row_number() OVER so_far AS nth, sum(n.bytes) OVER so_far AS bytes_upto,
               sum(n.last - n.first + 1) OVER so_far AS entries_upto
        FROM next n WINDOW so_far AS (ORDER BY n.last)
    )
    SELECT p.header, p.hash, p.signature, p.first, r.kinds, r.items, r.times, r.bodies, r.body_hashes
    FROM page p, LATERAL (
        SELECT array_agg(e.kind ORDER BY e.seq) AS kinds, array_agg(e.item ORDER BY e.seq) AS items,
               array_agg(e.at ORDER BY e.seq) AS times, array_agg(e.body ORDER BY e.seq) AS bodies,
               array_agg(e.body_hash ORDER BY e.seq) AS body_hashes
        FROM recall.record e
        WHERE e.space = p_space AND e.device = p_device AND e.seq BETWEEN p.first AND p.last
    ) r
    WHERE p.nth = 1 OR (p.bytes_upto <= 1048576 AND p.entries_upto <= 500)
    ORDER BY p.last
$$;

-- The machine's row, locked. The first login that writes for a machine is the only one that ever may.
CREATE OR REPLACE FUNCTION recall.own_device(p_space text, p_device text, OUT seq bigint, OUT hash text)
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET lock_timeout = '20s'
AS $$
DECLARE
    owner name;
BEGIN
    IF p_space !~ '^[0-9a-f]{32}$' OR p_device !~ '^[0-9a-f]{32}$' THEN
        RAISE EXCEPTION 'this is not the name of a space and a machine' USING ERRCODE = 'RC001';
    END IF;
    INSERT INTO recall.device (space, device, login) VALUES (p_space, p_device, session_user) ON CONFLICT DO NOTHING;
    SELECT d.seq, d.hash, d.login INTO seq, hash, owner FROM recall.device d
        WHERE d.space = p_space AND d.device = p_device FOR UPDATE;
    IF owner <> session_user THEN
        RAISE EXCEPTION 'this machine writes here as %, and not as %', owner, session_user USING ERRCODE = 'RC002';
    END IF;
END $$;

-- Appends entries to the machine's log. Writes nothing, and says how far the log is, if they do not follow its last entry.
CREATE OR REPLACE FUNCTION recall.append(
    p_space text, p_device text, p_header text, p_signature text, p_first bigint, p_before text, p_hash text,
    p_kinds text[], p_items text[], p_times bigint[], p_bodies text[], p_body_hashes text[],
    OUT written boolean, OUT seq bigint, OUT hash text)
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET lock_timeout = '20s'
AS $$
DECLARE
    entries integer := cardinality(p_kinds);
    size bigint;
    longest bigint;
BEGIN
    SELECT coalesce(sum(octet_length(b)), 0), coalesce(max(octet_length(b)), 0) INTO size, longest FROM unnest(p_bodies) b;
    IF entries IS NULL OR entries NOT BETWEEN 1 AND 500 OR cardinality(p_items) <> entries
        OR cardinality(p_times) <> entries OR cardinality(p_bodies) <> entries OR cardinality(p_body_hashes) <> entries
        OR longest > 262144 OR size > 8388608 OR octet_length(p_header) > 4096 OR octet_length(p_signature) > 256
        OR octet_length(p_hash) > 64
        OR EXISTS (SELECT FROM unnest(p_kinds, p_items, p_body_hashes) AS e (kind, item, body_hash)
                   WHERE octet_length(kind) > 64 OR octet_length(item) > 64 OR octet_length(body_hash) > 64)
    THEN
        RAISE EXCEPTION 'these entries are too many or too large' USING ERRCODE = 'RC001';
    END IF;
    SELECT d.seq, d.hash INTO seq, hash FROM recall.own_device(p_space, p_device) d;
    written := p_first = seq + 1 AND p_before = hash;
    IF NOT written THEN
        RETURN;
    END IF;
    INSERT INTO recall.record (space, device, seq, kind, item, at, body, body_hash)
        SELECT p_space, p_device, p_first + e.nth - 1, e.kind, e.item, e.at, e.body, e.body_hash
        FROM unnest(p_kinds, p_items, p_times, p_bodies, p_body_hashes)
            WITH ORDINALITY AS e (kind, item, at, body, body_hash, nth);
    seq := p_first + entries - 1;
    hash := p_hash;
    INSERT INTO recall.segment (space, device, first, last, header, hash, signature, bytes)
        VALUES (p_space, p_device, p_first, seq, p_header, p_hash, p_signature, size);
    UPDATE recall.device d SET seq = append.seq, hash = append.hash, seen_at = now()
        WHERE d.space = p_space AND d.device = p_device;
END $$;

-- Empties bodies of the machine's own entries.
CREATE OR REPLACE FUNCTION recall.blank(p_space text, p_device text, p_seqs bigint[])
RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET lock_timeout = '20s'
AS $$
BEGIN
    PERFORM recall.own_device(p_space, p_device);
    UPDATE recall.record r SET body = NULL
        WHERE r.space = p_space AND r.device = p_device AND r.seq = ANY (p_seqs) AND r.body IS NOT NULL;
END $$;

-- Says how far the machine has read the others.
CREATE OR REPLACE FUNCTION recall.say_progress(p_space text, p_device text, p_progress text)
RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET lock_timeout = '20s'
AS $$
BEGIN
    IF octet_length(p_progress) > 1048576 THEN
        RAISE EXCEPTION 'this is too large' USING ERRCODE = 'RC001';
    END IF;
    PERFORM recall.own_device(p_space, p_device);
    UPDATE recall.device d SET progress = p_progress, seen_at = now() WHERE d.space = p_space AND d.device = p_device;
END $$;

REVOKE ALL ON SCHEMA recall FROM PUBLIC;
REVOKE ALL ON ALL TABLES IN SCHEMA recall FROM PUBLIC;
REVOKE ALL ON ALL FUNCTIONS IN SCHEMA recall FROM PUBLIC;
GRANT USAGE ON SCHEMA recall TO recall_member, recall_reader;
GRANT EXECUTE ON FUNCTION recall.enter(), recall.heads(text), recall.progress(text, text[]), recall.pull(text, text, bigint)
    TO recall_member, recall_reader;
GRANT EXECUTE ON FUNCTION recall.append(text, text, text, text, bigint, text, text, text[], text[], bigint[], text[], text[]),
    recall.blank(text, text, bigint[]), recall.say_progress(text, text, text) TO recall_member;
