-- Layout 1: tables, and the few functions that must see and write under one lock in one round trip.
-- Names are found through search_path, which every connection of the store sets to its schema.
-- Ids are compared byte by byte (COLLATE "C"), as Python sorts them: heads are locked in that order.

CREATE TABLE midflight_layout (version integer NOT NULL);

-- The read model, in the order of the fields of base.Row. Its row is also the lock of its journal.
-- Room is left in each page (fillfactor) so that a step, which changes no indexed column, rewrites
-- the row in place and touches no index. For the same reason no index mentions updated_at.
CREATE TABLE journals (
    journal text COLLATE "C" PRIMARY KEY,
    kind text COLLATE "C" NOT NULL,
    head bigint NOT NULL,
    thread text COLLATE "C" NOT NULL,
    agent text COLLATE "C" NOT NULL,
    parent text COLLATE "C" NOT NULL,
    title text NOT NULL,
    phase text COLLATE "C" NOT NULL,
    driver text COLLATE "C" NOT NULL,
    epoch bigint NOT NULL,
    wants_driver boolean NOT NULL,
    open_questions bigint NOT NULL,
    due_at double precision,
    created_at double precision NOT NULL,
    updated_at double precision NOT NULL,
    steps bigint NOT NULL,
    tokens bigint NOT NULL,
    usd double precision NOT NULL
) WITH (fillfactor = 70);

CREATE INDEX journals_by_thread ON journals (thread, journal);
CREATE INDEX journals_by_agent ON journals (agent, journal) WHERE kind = 'run';
CREATE INDEX journals_by_parent ON journals (parent, journal) WHERE parent <> '';
CREATE INDEX journals_by_phase ON journals (phase, journal) WHERE kind = 'run';
CREATE INDEX journals_wanting ON journals (journal) WHERE wants_driver;
CREATE INDEX journals_due ON journals (due_at) WHERE due_at IS NOT NULL;
CREATE INDEX journals_live ON journals (journal)
WHERE kind = 'run' AND (driver <> '' OR phase IN ('running', 'pausing', 'cancelling'));

CREATE TABLE events (
    journal text COLLATE "C" NOT NULL,
    position bigint NOT NULL,
    at double precision NOT NULL,
    version integer NOT NULL,
    must_understand boolean NOT NULL,
    checksum bigint NOT NULL,
    append_id text COLLATE "C",          -- on the first event of an append in this journal
    requested boolean NOT NULL,          -- whether that append was a request: see below
    body text NOT NULL,
    -- layer postgres-place-can-taken-once
    PRIMARY KEY (journal, position)      -- no two appends can take one place, not even the first
);

-- A request whose answer was lost is looked up here, by any process and after any restart. A
-- decision needs no index: if it was committed, it begins right after the position its driver had
-- folded. Most appends are decisions, and this index was a tenth of their time.
-- layer postgres-request-can-taken-once
CREATE UNIQUE INDEX events_by_request ON events (append_id, journal)
WHERE requested AND append_id IS NOT NULL;

CREATE TABLE blobs (hash text COLLATE "C" PRIMARY KEY, body bytea NOT NULL);
CREATE TABLE blob_uses (
    hash text COLLATE "C" NOT NULL,
    journal text COLLATE "C" NOT NULL,
    PRIMARY KEY (hash, journal)
);
CREATE INDEX blob_uses_by_journal ON blob_uses (journal);

-- A switch that is off has a row too: whoever starts something must have a row to lock. Only a purge
-- removes it, with the last of its thread.
CREATE TABLE switches (
    scope text COLLATE "C" PRIMARY KEY,
    is_on boolean NOT NULL DEFAULT false,
    stopped_by text NOT NULL DEFAULT '',
    at double precision NOT NULL DEFAULT 0,
    reason text NOT NULL DEFAULT ''
);

CREATE INDEX switches_on ON switches (scope) WHERE is_on;  -- a few among one for each thread

CREATE TABLE leases (
    driver text COLLATE "C" PRIMARY KEY,
    holder text NOT NULL,                -- who is this driver; nobody else may renew it
    expires_at double precision NOT NULL -- by the server's clock, which is the only judge
);


-- The store's clock. Unlike now() it goes on during a transaction that waits for a lock.
CREATE FUNCTION clock() RETURNS double precision LANGUAGE sql VOLATILE
-- layer clock-goes-on-while-transaction
RETURN date_part('epoch', clock_timestamp());


-- Append many decisions of one process in one transaction; each of them succeeds or fails alone.
-- No journal is in two of them. `wanted` are the journals they were decided on, `of_append` says
-- by which. The second statement looks after the first has locked, so what it sees stays true.
-- Failed is what was decided on another head, is a request whose id is known (the others have none
-- in request_ids), or was stamped by a clock that is far from ours (a laptop that slept): the
-- caller then looks which. A transaction that took its locks and its time before gives no sent_at.
CREATE FUNCTION append_batch(
    sent_at double precision,
    request_ids text[],
    of_append integer[],
    wanted text[],
    expected bigint[],
    new_rows json,
    journals_of text[],
    positions bigint[],
    times double precision[],
    versions integer[],
    musts boolean[],
    checksums bigint[],
    append_ids text[],
    requesteds boolean[],
    bodies text[],
    blob_journals text[],
    blob_hashes text[],
    blob_bodies bytea[],
    OUT at double precision,
    OUT failed integer[]
) LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    in_time boolean := coalesce(abs(clock() - sent_at) < 5, true);
    left_out text[] := '{}';
BEGIN
    -- layer batch-locks-heads-compares
    PERFORM FROM journals WHERE journal = ANY (wanted) ORDER BY journal FOR UPDATE;
    at := clock();
    failed := ARRAY(
        SELECT w.append
        FROM unnest(of_append, wanted, expected) AS w (append, journal, expected)
        LEFT JOIN journals AS j ON j.journal = w.journal
        -- layer batch-compares-heads
        WHERE coalesce(j.head, 0) <> w.expected OR NOT in_time
        UNION
        SELECT r.append::integer
        FROM unnest(request_ids) WITH ORDINALITY AS r (id, append)
        -- layer batch-knows-ids-of-requests
        WHERE EXISTS (SELECT FROM events AS e WHERE e.append_id = r.id AND e.requested)
    );
    IF failed <> '{}' THEN
        left_out := ARRAY(
            SELECT w.journal FROM unnest(of_append, wanted) AS w (append, journal)
            WHERE w.append = ANY (failed)
        );
    END IF;

    IF 0 = ANY (expected) THEN
        INSERT INTO journals
        SELECT r.* FROM json_populate_recordset(NULL::journals, new_rows) AS r
        JOIN unnest(wanted, expected) AS w (journal, expected) ON w.journal = r.journal
        WHERE w.expected = 0 AND r.journal <> ALL (left_out)
        ORDER BY r.journal;
    END IF;
    UPDATE journals AS j
    SET head = r.head, title = r.title, phase = r.phase, driver = r.driver, epoch = r.epoch,
        wants_driver = r.wants_driver, open_questions = r.open_questions, due_at = r.due_at,
        updated_at = r.updated_at, steps = r.steps, tokens = r.tokens, usd = r.usd
    FROM json_populate_recordset(NULL::journals, new_rows) AS r
    WHERE j.journal = r.journal AND j.head < r.head AND r.journal <> ALL (left_out);
    INSERT INTO events (
        journal, position, at, version, must_understand, checksum, append_id, requested, body
    )
    SELECT * FROM unnest(
        journals_of, positions, times, versions, musts, checksums, append_ids, requesteds, bodies
    ) AS e (journal)
    WHERE e.journal <> ALL (left_out);

    IF blob_hashes <> '{}' THEN
        -- DO UPDATE, because DO NOTHING would not lock a blob that a purge is about to remove.
        INSERT INTO blobs (hash, body)
        SELECT DISTINCT ON (b.hash) b.hash, b.body
        FROM unnest(blob_journals, blob_hashes, blob_bodies) AS b (journal, hash, body)
        WHERE b.journal <> ALL (left_out)
        ORDER BY b.hash
        -- layer refers-to-value-holds
        ON CONFLICT (hash) DO UPDATE SET hash = excluded.hash;
        INSERT INTO blob_uses (hash, journal)
        SELECT DISTINCT b.hash, b.journal FROM unnest(blob_journals, blob_hashes) AS b (journal, hash)
        WHERE b.journal <> ALL (left_out)
        ON CONFLICT DO NOTHING;
    END IF;
END $$;


-- Lock what a request must see as of one moment: first switches, then leases, then heads, each in
-- the order of their ids. Every statement looks after the one before it has locked. A switch that
-- has no row yet gets one, or there would be nothing to lock. Of leases only those that are over are
-- held, against a late renewal: whoever lives must be able to renew while we wait for a head.
CREATE FUNCTION lock_for_request(
    request_id text,
    scopes text[],
    drivers text[],
    wanted text[],
    OUT at double precision,
    OUT known boolean,
    OUT stopped json,
    OUT alive text[],
    OUT journals_found text[],
    OUT heads bigint[]
) LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    locked bigint := 0;
    judged double precision;
BEGIN
    WHILE locked < cardinality(scopes) LOOP
        -- layer reads-switch-holds
        PERFORM FROM switches WHERE scope = ANY (scopes) ORDER BY scope FOR SHARE;
        GET DIAGNOSTICS locked = ROW_COUNT;
        IF locked < cardinality(scopes) THEN
            -- layer switch-nobody-has-set-has-row
            INSERT INTO switches (scope) SELECT s FROM unnest(scopes) AS s ORDER BY s
            ON CONFLICT DO NOTHING;
        END IF;
    END LOOP;
    judged := clock();
    -- layer judges-lease-leaves-to-driver
    PERFORM FROM leases WHERE driver = ANY (drivers) AND expires_at <= judged
    -- layer judges-lease-holds
    ORDER BY driver FOR SHARE;
    -- layer request-locks-heads-decided
    PERFORM FROM journals WHERE journal = ANY (wanted) ORDER BY journal FOR UPDATE;
    at := clock();
    -- layer request-under-lock-knows-id
    known := EXISTS (SELECT FROM events WHERE append_id = request_id AND requested);
    SELECT json_agg(s) INTO stopped FROM switches AS s WHERE s.scope = ANY (scopes) AND s.is_on;
    -- layer claim-judges-leases-by-server
    alive := ARRAY(SELECT driver FROM leases WHERE driver = ANY (drivers) AND expires_at > judged);
    SELECT array_agg(journal), array_agg(head) INTO journals_found, heads
    FROM journals WHERE journal = ANY (wanted);
END $$;


-- Set a kill switch and lock every run in its scope that moves or has a driver. Taking the switch
-- waits for every start, claim and resume that holds it; those that come later wait for us. A run
-- that begins to move without them (an answer came) has no driver, and cannot get one.
CREATE FUNCTION lock_for_kill(
    kill_id text,
    wanted_scope text,
    who text,
    why text,
    OUT at double precision,
    OUT known boolean,
    OUT stopped json,
    OUT journals_found text[],
    OUT heads bigint[]
) LANGUAGE plpgsql AS $$
#variable_conflict use_column
BEGIN
    LOOP
        INSERT INTO switches (scope) VALUES (wanted_scope) ON CONFLICT DO NOTHING;
        -- layer kill-holds-switch
        PERFORM FROM switches WHERE scope = wanted_scope FOR UPDATE;
        -- layer kill-sets-switch-also-if-removed
        EXIT WHEN FOUND;  -- else a purge has removed it while we waited
    END LOOP;
    UPDATE switches SET is_on = true, stopped_by = who, at = clock(), reason = why
    WHERE scope = wanted_scope AND NOT is_on;
    SELECT json_agg(s) INTO stopped FROM switches AS s WHERE s.scope = wanted_scope;

    SELECT array_agg(live.journal), array_agg(live.head) INTO journals_found, heads
    FROM (
        SELECT journal, head FROM journals
        WHERE kind = 'run'
            AND (driver <> '' OR phase IN ('running', 'pausing', 'cancelling'))
            AND wanted_scope IN (
                'all',
                'agent:' || agent,
                'agent:' || regexp_replace(agent, '\.aside$', ''),
                'thread:' || thread
            )
        ORDER BY journal
        -- layer kill-locks-runs-in-scope
        FOR UPDATE
    ) AS live;
    at := clock();
    -- layer kill-knows-id
    known := EXISTS (SELECT FROM events WHERE append_id = kill_id AND requested);
END $$;


-- Look the read model up. Planned anew at each call, since which index is best depends on which
-- conditions are empty; a plan for all of them alike would read the whole table.
CREATE FUNCTION find_rows(
    wanted_kind text,
    phases text[],
    wanted_thread text,
    wanted_agent text,
    wanted_parent text,
    before text,
    at_most bigint
) RETURNS SETOF journals LANGUAGE plpgsql STABLE SET plan_cache_mode = force_custom_plan AS $$
#variable_conflict use_column
BEGIN
    RETURN QUERY
    SELECT * FROM journals
    WHERE kind = wanted_kind
        AND (phases = '{}' OR phase = ANY (phases))
        AND (wanted_thread = '' OR thread = wanted_thread)
        AND (wanted_agent = '' OR agent = wanted_agent)
        AND (wanted_parent = '' OR parent = wanted_parent)
        AND (before = '' OR journal < before)
    ORDER BY journal DESC
    LIMIT at_most;
END $$;


-- Of runs that are to go, those that a run which stays still needs: one that was forked from them, or
-- one that has begun them. A fork is on the thread of its source, and reads it as often as it is
-- driven. What an input says about forks can keep a run and can lose none; most first events name no
-- fork, and are not compared with each of the runs.
CREATE FUNCTION still_needed(going text[]) RETURNS text[] LANGUAGE sql VOLATILE
RETURN ARRAY(
    WITH forks AS MATERIALIZED (
        SELECT fork.journal, fork.thread, first.body FROM journals AS fork
        JOIN events AS first ON first.journal = fork.journal AND first.position = 1
        WHERE fork.kind = 'run'
            AND fork.thread IN (SELECT g.thread FROM journals AS g WHERE g.journal = ANY (going))
            AND strpos(first.body, '"fork_of":"') > 0
    )
    SELECT source.journal FROM journals AS source
    WHERE source.journal = ANY (going) AND EXISTS (
        SELECT FROM forks
        WHERE forks.thread = source.thread AND forks.journal <> ALL (going)
            AND strpos(forks.body, '"fork_of":"' || source.journal || '"') > 0
    )
    UNION
    SELECT child.journal FROM journals AS child
    JOIN journals AS parent ON parent.journal = child.parent
    WHERE child.journal = ANY (going) AND parent.journal <> ALL (going)
);


-- Remove runs that ended long ago, threads that hold nothing else, and values nobody refers to.
-- What somebody is using at this moment is left for the next time.
CREATE FUNCTION purge(
    ended_before double precision,
    at_most bigint,
    OUT runs text[],
    OUT threads text[],
    OUT values_removed bigint
) LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    hashes text[];
    emptied text[] := '{}';
    page text[];
    needed text[];
    after text := '';
BEGIN
    runs := '{}';
    LOOP
        page := ARRAY(
            SELECT journal FROM journals
            WHERE kind = 'run' AND phase IN ('done', 'failed', 'cancelled', 'killed')
                AND updated_at < ended_before AND journal > after COLLATE "C"
            -- layer purge-leaves-alone-what-somebody
            ORDER BY journal LIMIT at_most - cardinality(runs) FOR UPDATE SKIP LOCKED
        );
        EXIT WHEN page = '{}';
        after := page[cardinality(page)];
        LOOP  -- under lock: one may just have been forked, or be needed by one that stays
            -- layer postgres-purge-leaves-what-run-stays-forked
            needed := still_needed(page);
            EXIT WHEN needed = '{}';
            page := ARRAY(SELECT p FROM unnest(page) AS p WHERE p <> ALL (needed));
        END LOOP;
        emptied := emptied || ARRAY(SELECT DISTINCT thread FROM journals WHERE journal = ANY (page));
        DELETE FROM journals WHERE journal = ANY (page);
        runs := runs || page;
    END LOOP;
    threads := ARRAY(
        SELECT journal FROM journals AS t
        WHERE kind = 'thread' AND open_questions = 0 AND updated_at < ended_before
            AND NOT EXISTS (SELECT FROM journals AS r WHERE r.thread = t.journal AND r.kind = 'run')
        -- layer purge-leaves-alone-thread-in-run
        ORDER BY journal LIMIT at_most FOR UPDATE SKIP LOCKED
    );
    threads := ARRAY(  -- once more under lock: a run may just have begun there
        SELECT t FROM unnest(threads) AS t
        -- layer purge-looks-once-more-under-lock
        WHERE NOT EXISTS (SELECT FROM journals AS r WHERE r.thread = t AND r.kind = 'run')
    );
    DELETE FROM journals WHERE journal = ANY (threads);
    DELETE FROM events WHERE journal = ANY (runs || threads);
    WITH dropped AS (
        DELETE FROM blob_uses WHERE journal = ANY (runs || threads) RETURNING hash
    )
    SELECT array_agg(DISTINCT hash) INTO hashes FROM dropped;
    -- layer purge-locks-values-before-looks
    PERFORM FROM blobs WHERE hash = ANY (hashes) ORDER BY hash FOR UPDATE;
    DELETE FROM blobs AS b
    WHERE b.hash = ANY (hashes) AND NOT EXISTS (SELECT FROM blob_uses AS u WHERE u.hash = b.hash);
    GET DIAGNOSTICS values_removed = ROW_COUNT;
    DELETE FROM leases WHERE expires_at < clock() - 86400;

    -- A switch that is off and that nobody holds says nothing: who needs it next makes its row anew,
    -- and looks again if it was removed while they waited for it. Those who hold it come first:
    -- everybody else takes switches before heads, so to wait for one here could be a deadlock.
    DELETE FROM switches WHERE scope IN (
        SELECT s.scope FROM switches AS s
        -- layer switch-of-thread-stopped-stays
        WHERE NOT s.is_on
            AND s.scope IN (
                SELECT 'thread:' || t FROM unnest(emptied || threads) AS t
                WHERE NOT EXISTS (SELECT FROM journals AS j WHERE j.thread = t)
            )
        -- layer purge-does-not-wait-for-switches
        ORDER BY s.scope FOR UPDATE SKIP LOCKED
    );
END $$;
