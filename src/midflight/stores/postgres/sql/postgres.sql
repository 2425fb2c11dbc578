-- name: append_few
-- What a driver does most: one or two events in one journal, an outcome and the start that follows.
-- The UPDATE is lock, comparison and read model in one; no row comes back if the head is another, if
-- the stamp is far from the server's clock, or if it is a request whose id is known: it may have been
-- answered in another journal then, where the index over id and journal does not meet it. A second
-- event that is not there has no position.
WITH moved AS (
    UPDATE journals
    SET head = $3, title = $4, phase = $5, driver = $6, epoch = $7, wants_driver = $8,
        open_questions = $9, due_at = $10, updated_at = $11, steps = $12, tokens = $13, usd = $14
    -- layer lone-append-compares-heads
    WHERE journal = $1 AND head = $2 AND abs(clock() - $15) < 5
        -- layer lone-append-knows-ids-of-requests
        AND NOT ($22 AND EXISTS (SELECT FROM events WHERE append_id = $21 AND requested))
    RETURNING journal
)
INSERT INTO events (
    journal, position, at, version, must_understand, checksum, append_id, requested, body
)
SELECT moved.journal, e.* FROM moved CROSS JOIN (
    VALUES (
        $16::bigint, $17::double precision, $18::integer, $19::boolean, $20::bigint, $21::text,
        $22::boolean, $23::text
    ), (
        $24::bigint, $25::double precision, $26::integer, $27::boolean, $28::bigint, $29::text,
        $30::boolean, $31::text
    )
) AS e (position)
WHERE e.position IS NOT NULL
RETURNING clock()

-- name: append_steps
-- What many drivers of one process do at a time: decisions with no large value, each in one journal
-- that exists. Heads are locked in the order of their ids, and compared as they are then; written are
-- the journals whose head was the expected one. A stamp that is far from the server's clock, which is
-- looked at before there is a lock to wait for, leaves all of them out.
WITH locked AS MATERIALIZED (
    SELECT journal, head FROM journals
    -- layer steps-near-servers-time
    WHERE journal = ANY ($1) AND abs(clock() - $2) < 5
    -- layer steps-lock-heads
    ORDER BY journal FOR UPDATE
), moved AS (
    UPDATE journals AS j
    SET head = r.head, title = r.title, phase = r.phase, driver = r.driver, epoch = r.epoch,
        wants_driver = r.wants_driver, open_questions = r.open_questions, due_at = r.due_at,
        updated_at = r.updated_at, steps = r.steps, tokens = r.tokens, usd = r.usd
    FROM unnest(
        $1::text[], $3::bigint[], $4::bigint[], $5::text[], $6::text[], $7::text[], $8::bigint[],
        $9::boolean[], $10::bigint[], $11::double precision[], $12::double precision[],
        $13::bigint[], $14::bigint[], $15::double precision[]
    ) AS r (
        journal, expected, head, title, phase, driver, epoch, wants_driver, open_questions, due_at,
        updated_at, steps, tokens, usd
    )
    -- layer steps-compare-heads
    JOIN locked ON locked.journal = r.journal AND locked.head = r.expected
    WHERE j.journal = locked.journal
    RETURNING j.journal
), written AS (
    INSERT INTO events (
        journal, position, at, version, must_understand, checksum, append_id, requested, body
    )
    SELECT e.* FROM moved
    JOIN unnest(
        $16::text[], $17::bigint[], $18::double precision[], $19::integer[], $20::boolean[],
        $21::bigint[], $22::text[], $23::boolean[], $24::text[]
    ) AS e (journal) ON e.journal = moved.journal
)
SELECT ARRAY(SELECT journal FROM moved) AS written, clock() AS at

-- name: append_batch
-- All else: requests, and what begins journals, is in several of them or has large values.
SELECT at, failed FROM append_batch(
    $1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18
)

-- name: append_audited
-- The same with the record of what is appended, in one round trip.
WITH audited AS (
    INSERT INTO audit (id, record) VALUES ($19, $20) ON CONFLICT (id) DO NOTHING
)
SELECT at, failed FROM append_batch(
    $1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18
)

-- name: insert_audit
INSERT INTO audit (id, record) SELECT * FROM unnest($1::text[], $2::text[])
ON CONFLICT (id) DO NOTHING

-- name: chain_audit
SELECT audit_chain($1)

-- name: audit_head
SELECT number, digest FROM audit WHERE number IS NOT NULL ORDER BY number DESC LIMIT 1

-- name: audit_page
-- As bytes: the digest is over the bytes that are there.
SELECT number, previous, digest, convert_to(record, 'UTF8')
FROM audit WHERE number > $1 ORDER BY number LIMIT $2

-- name: examine
-- Why an append failed, as of one moment: done before, or decided on another head.
SELECT
    clock() AS at,
    EXISTS (SELECT FROM events WHERE append_id = $1 AND requested) OR EXISTS (
        SELECT FROM unnest($2::text[], $3::bigint[]) AS w (journal, expected)
        JOIN events AS e ON e.journal = w.journal AND e.position = w.expected + 1
        WHERE e.append_id = $1
    ) AS known,
    ARRAY(
        SELECT coalesce(j.head, 0)
        FROM unnest($2::text[]) WITH ORDINALITY AS w (journal, n)
        LEFT JOIN journals AS j ON j.journal = w.journal
        ORDER BY w.n
    ) AS heads

-- name: appended
-- What was appended under an id: in each journal from its first event up to the next append.
SELECT e.journal, e.position, e.at, e.version, e.must_understand, e.checksum,
    convert_to(e.body, 'UTF8') AS body
FROM (
    SELECT journal, position FROM events WHERE append_id = $1 AND requested
    UNION
    SELECT f.journal, f.position
    FROM unnest($2::text[], $3::bigint[]) AS w (journal, expected)
    JOIN events AS f ON f.journal = w.journal AND f.position = w.expected + 1
    WHERE f.append_id = $1
) AS first
CROSS JOIN LATERAL (
    SELECT coalesce(min(n.position), 9223372036854775807) AS position FROM events AS n
    WHERE n.journal = first.journal AND n.position > first.position AND n.append_id IS NOT NULL
) AS next
JOIN events AS e
    ON e.journal = first.journal AND e.position >= first.position AND e.position < next.position
ORDER BY e.journal, e.position

-- name: read_events
-- As bytes: what a broken disk has made of the text is for the checksum to find.
SELECT journal, position, at, version, must_understand, checksum, convert_to(body, 'UTF8') AS body
FROM events WHERE journal = $1 AND position > $2 ORDER BY position LIMIT $3

-- name: read_tails
-- The same for many journals at once: those with a short tail cost one round trip together.
SELECT e.journal, e.position, e.at, e.version, e.must_understand, e.checksum,
    convert_to(e.body, 'UTF8') AS body
FROM unnest($1::text[], $2::bigint[]) AS w (journal, after)
CROSS JOIN LATERAL (
    SELECT * FROM events WHERE journal = w.journal AND position > w.after
    ORDER BY position LIMIT $3
) AS e
ORDER BY e.journal, e.position

-- name: lock_for_request
SELECT at, known, stopped, alive, journals_found, heads
FROM lock_for_request($1, $2, $3, $4)

-- name: lock_for_kill
SELECT at, known, stopped, journals_found, heads FROM lock_for_kill($1, $2, $3, $4)

-- name: live
-- What a kill will probably find, so that it can be folded before anything is locked.
SELECT journal, head FROM journals
WHERE kind = 'run'
    AND (driver <> '' OR phase IN ('running', 'pausing', 'cancelling'))
    AND $1 IN (
        'all', 'agent:' || agent, 'agent:' || regexp_replace(agent, '\.aside$', ''), 'thread:' || thread
    )
ORDER BY journal

-- name: row
SELECT * FROM journals WHERE journal = $1

-- name: rows
SELECT * FROM find_rows($1, $2, $3, $4, $5, $6, $7)

-- name: search_rows
-- Each word in the title or in the first brief; lower() would depend on the server's locale.
SELECT * FROM find_rows($1, $2, $3, $4, $5, $6, 9223372036854775807) AS found
WHERE NOT EXISTS (
    SELECT FROM unnest($8::text[]) AS word, events AS first
    WHERE first.journal = found.journal AND first.position = 1 AND strpos(
        translate(
            found.title || ' ' || coalesce(first.body::json ->> 'brief', ''),
            'ABCDEFGHIJKLMNOPQRSTUVWXYZ',
            'abcdefghijklmnopqrstuvwxyz'
        ),
        word
    ) = 0
)
ORDER BY journal DESC LIMIT $7

-- name: due
-- Whose time has come, or who wants a driver and has none whose lease lives.
SELECT * FROM journals WHERE journal IN (
    SELECT journal FROM journals WHERE due_at <= (SELECT clock())
    UNION
    SELECT w.journal FROM journals AS w
    WHERE w.wants_driver AND NOT EXISTS (
        -- layer sweep-judges-leases-by-server
        SELECT FROM leases AS l WHERE l.driver = w.driver AND l.expires_at > (SELECT clock())
    )
)
ORDER BY journal LIMIT $1

-- name: heads
SELECT journal, head FROM journals WHERE journal = ANY ($1)

-- name: moved_lately
SELECT journal FROM journals WHERE updated_at > (SELECT clock()) - $1

-- name: switches
SELECT scope, stopped_by, at, reason FROM switches WHERE is_on ORDER BY scope

-- name: release
UPDATE switches SET is_on = false WHERE scope = $1 AND is_on RETURNING true

-- name: renew_lease
-- No row comes back if another holds it.
INSERT INTO leases AS l (driver, holder, expires_at) VALUES ($1, $2, clock() + $3)
ON CONFLICT (driver) DO UPDATE SET holder = excluded.holder, expires_at = excluded.expires_at
-- layer name-of-living-driver-own
WHERE l.holder = excluded.holder OR l.expires_at <= clock()
RETURNING true

-- name: drop_lease
-- layer lease-given-back-by-holder-only
DELETE FROM leases WHERE driver = $1 AND holder = $2

-- name: lease_lives
-- layer asks-told-of-leases-by-server
SELECT EXISTS (SELECT FROM leases WHERE driver = $1 AND expires_at > clock())

-- name: blob
SELECT body FROM blobs WHERE hash = $1

-- name: read_fold
SELECT number, checksum, body FROM folds AS fold
WHERE journal = $1 AND (number > 0 OR event = (
    SELECT checksum FROM events WHERE journal = fold.journal AND position = fold.position
))
ORDER BY number

-- name: lock_fold
-- Those who write the fold of a journal take turns. No lock of the head is needed for that, for which
-- every append would have to wait. The next statement sees what the one before us has committed.
SELECT pg_advisory_xact_lock(hashtext('midflight fold ' || current_schema()), hashtext($1))

-- name: fold_at
-- Only of a journal whose event at the position is of the same moment: another past has another one.
SELECT coalesce((SELECT position FROM folds WHERE journal = event.journal AND number = 0), 0)
FROM events AS event WHERE journal = $1 AND position = $2
    -- layer postgres-fold-of-same-past
    AND at = $3

-- name: delete_fold
DELETE FROM folds WHERE journal = $1

-- name: write_fold
-- The checksum of its event binds the fold to its journal.
INSERT INTO folds (journal, number, position, event, checksum, body)
SELECT event.journal, row.number, event.position, event.checksum, row.checksum, row.body
FROM events AS event
CROSS JOIN unnest($3::integer[], $4::bigint[], $5::bytea[]) AS row (number, checksum, body)
WHERE event.journal = $1 AND event.position = $2
ON CONFLICT (journal, number) DO UPDATE SET
    position = excluded.position, event = excluded.event, checksum = excluded.checksum,
    body = excluded.body
RETURNING number

-- name: purge
SELECT runs, threads, values_removed FROM purge($1, $2)

-- name: only_reads
SELECT current_setting('transaction_read_only')::boolean

-- name: clock
SELECT clock()

-- name: be_present
-- Every process that listens holds this lock with the others, for as long as its connection lives.
SELECT pg_advisory_lock_shared(hashtext('midflight'), hashtext($1))

-- name: alone
SELECT count(*) < 2 FROM pg_locks
WHERE locktype = 'advisory' AND objsubid = 2
    AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
    AND classid::bigint = hashtext('midflight')::bigint & 4294967295
    AND objid::bigint = hashtext($1)::bigint & 4294967295

-- name: process
-- Which process of the server we have. A pooler may have told us another.
SELECT pg_backend_pid()

-- name: notify
-- News tell of what is on the disk already. A NOTIFY is a transaction, and its commit would be synced
-- too, while somebody waits for their cancel to arrive: so this one, and no other, waits for no disk.
-- layer news-do-for-speed
WITH hurry AS MATERIALIZED (SELECT set_config('synchronous_commit', 'off', true))
SELECT pg_notify($1, payload) FROM hurry CROSS JOIN unnest($2::text[]) AS payload

-- name: settle_in
-- An acknowledgement means that it is on the disk, whatever the server's default. And a statement
-- whose client has died gives its locks back soon, where the server can find that out. A limit for
-- whole transactions, which servers have since version 17, is not for ours: a kill or a purge is one.
-- What is asked back shows whether a pooler has kept our settings from the server.
SELECT
    pg_backend_pid() AS pid,
    ARRAY(
        SELECT current_setting(name)
        FROM unnest($1::text[]) WITH ORDINALITY AS asked (name, place) ORDER BY place
    ) AS settings,
    CASE WHEN current_setting('synchronous_commit') = 'off'
        -- layer commit-waits-for-disk
        THEN set_config('synchronous_commit', 'on', false)
    END,
    CASE WHEN current_setting('client_connection_check_interval', true) IS NOT NULL
        -- layer statement-client-died-ended
        THEN set_config('client_connection_check_interval', '500ms', false)
    END,
    CASE WHEN current_setting('transaction_timeout', true) IS NOT NULL
        -- layer role-limit-for-transactions
        THEN set_config('transaction_timeout', '0', false)
    END

-- name: lock_layout
SELECT pg_advisory_lock(hashtext('midflight layout'), hashtext($1))
