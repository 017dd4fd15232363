-- Roles of the whole server: who owns the functions, who may use them, who may only read. Nobody logs in as one of them.
DO $$
DECLARE
    named text;
BEGIN
    FOREACH named IN ARRAY ARRAY['recall_owner', 'recall_member', 'recall_reader'] LOOP
        IF NOT EXISTS (SELECT FROM pg_catalog.pg_roles WHERE rolname = named) THEN
            EXECUTE format('CREATE ROLE %I NOLOGIN', named);
        END IF;
    END LOOP;
    -- Whoever sets it up acts as the owner, and may share.
    IF NOT pg_catalog.pg_has_role(current_user, 'recall_owner', 'USAGE') THEN
        EXECUTE format('GRANT recall_owner TO %I', current_user);
    END IF;
    IF NOT pg_catalog.pg_has_role(current_user, 'recall_member', 'USAGE') THEN
        EXECUTE format('GRANT recall_member TO %I', current_user);
    END IF;
END $$;
