-- Layout 2. The audit: one record for each control, each with the digest of the one before it.
-- No purge removes any of it.
--
-- A control writes its record in its own transaction and without a number: a chain is one after the
-- other, and controls of different runs must not wait for each other. audit_chain gives numbers and
-- digests soon afterwards, and whoever reads the audit calls it first.
CREATE TABLE audit (
    entered bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    id text COLLATE "C" NOT NULL UNIQUE, -- a record that is written again is written once
    record text NOT NULL,
    number bigint UNIQUE,
    previous text,
    digest text
);

CREATE INDEX audit_not_chained ON audit (entered) WHERE number IS NULL;


-- Chain up to at_most records that have no number yet, in the order in which they came; gives how
-- many they were. Two at once would give the same numbers, so the second waits for the first.
CREATE FUNCTION audit_chain(at_most bigint) RETURNS bigint LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    last_number bigint;
    last_digest text;
    found record;
    chained bigint := 0;
BEGIN
    PERFORM pg_advisory_xact_lock(hashtext('midflight audit'), hashtext(current_schema()));
    SELECT number, digest INTO last_number, last_digest
    FROM audit WHERE number IS NOT NULL ORDER BY number DESC LIMIT 1;
    last_number := coalesce(last_number, 0);
    last_digest := coalesce(last_digest, repeat('0', 64));
    FOR found IN
        SELECT entered, record AS body FROM audit WHERE number IS NULL ORDER BY entered LIMIT at_most
    LOOP
        UPDATE audit
        SET number = last_number + 1,
            previous = last_digest,
            digest = encode(
                sha256(convert_to(
                    last_digest || E'\n' || (last_number + 1) || E'\n' || found.body, 'UTF8'
                )),
                'hex'
            )
        WHERE entered = found.entered
        RETURNING number, digest INTO last_number, last_digest;
        chained := chained + 1;
    END LOOP;
    RETURN chained;
END $$;
