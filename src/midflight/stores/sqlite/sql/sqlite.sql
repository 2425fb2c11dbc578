-- name: insert_event
INSERT INTO events (
    journal, position, at, version, must_understand, checksum, append_id, requested, body
) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)

-- name: upsert_journal
-- The read model follows in the same transaction, so it can never tell another story.
INSERT INTO journals (
    journal, kind, head, thread, agent, parent, title, phase, driver, epoch, wants_driver,
    open_questions, due_at, created_at, updated_at, steps, tokens, usd
) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (journal) DO UPDATE SET
    head = excluded.head, title = excluded.title, phase = excluded.phase,
    driver = excluded.driver, epoch = excluded.epoch, wants_driver = excluded.wants_driver,
    open_questions = excluded.open_questions, due_at = excluded.due_at,
    updated_at = excluded.updated_at, steps = excluded.steps, tokens = excluded.tokens,
    usd = excluded.usd

-- name: touch_journal
-- A mere step. SQLite rewrites every index that a SET list names, changed or not; this names none.
UPDATE journals SET head = ?, updated_at = ?, steps = ?, tokens = ?, usd = ? WHERE journal = ?

-- name: insert_blob
INSERT INTO blobs (hash, body) VALUES (?, ?) ON CONFLICT DO NOTHING

-- name: insert_blob_use
INSERT INTO blob_uses (journal, hash) VALUES (?, ?) ON CONFLICT DO NOTHING

-- name: read_events
-- As bytes: what a broken disk has made of the text is for the checksum to find.
SELECT position, at, version, must_understand, checksum, CAST(body AS BLOB)
FROM events WHERE journal = ? AND position > ? ORDER BY position LIMIT ?

-- name: find_request
-- Where a request of this id begins in each of its journals.
SELECT journal, position FROM events
WHERE append_id = ? AND requested AND append_id IS NOT NULL ORDER BY journal

-- name: append_at
SELECT append_id FROM events WHERE journal = ? AND position = ?

-- name: append_end
-- An append reaches to the next one, or to the end.
SELECT coalesce(min(position) - 1, 9223372036854775807) FROM events
WHERE journal = ? AND position > ? AND append_id IS NOT NULL

-- name: read_blob
SELECT body FROM blobs WHERE hash = ?

-- name: row
SELECT journal, kind, head, thread, agent, parent, title, phase, driver, epoch, wants_driver,
    open_questions, due_at, created_at, updated_at, steps, tokens, usd
FROM journals WHERE journal = ?

-- name: rows
SELECT journal, kind, head, thread, agent, parent, title, phase, driver, epoch, wants_driver,
    open_questions, due_at, created_at, updated_at, steps, tokens, usd
FROM journals
WHERE kind = :kind
    AND (:thread = '' OR thread = :thread)
    AND (:agent = '' OR agent = :agent)
    AND (:parent = '' OR parent = :parent)
    AND (:before = '' OR journal < :before)
    AND (:phases = '[]' OR phase IN (SELECT value FROM json_each(:phases)))
    AND (:words = '[]' OR NOT EXISTS (
        SELECT 1 FROM json_each(:words) AS word, events AS first
        WHERE first.journal = journals.journal AND first.position = 1 AND instr(
            lower(title || ' ' || coalesce(json_extract(first.body, '$.brief'), '')), word.value
        ) = 0
    ))
ORDER BY journal DESC LIMIT :limit

-- name: due
-- Whose time has come, or who wants a driver; whether a named driver lives is asked of its lock.
SELECT journal, kind, head, thread, agent, parent, title, phase, driver, epoch, wants_driver,
    open_questions, due_at, created_at, updated_at, steps, tokens, usd
FROM journals
WHERE wants_driver OR due_at <= ?
ORDER BY journal

-- name: heads
SELECT journal, head FROM journals WHERE journal IN (SELECT value FROM json_each(?))

-- name: last_event
SELECT coalesce(max(rowid), 0) FROM events

-- name: moved_since
SELECT DISTINCT journal FROM events WHERE rowid > ?

-- name: in_scope
-- What a kill must reach: everything in motion, and everything that has a driver.
SELECT journal FROM journals
WHERE kind = 'run'
    AND (driver <> '' OR phase IN ('running', 'pausing', 'cancelling'))
    AND (:kind = 'all' OR (:kind = 'agent' AND agent IN (:name, :name || '.aside'))
        OR (:kind = 'thread' AND thread = :name))
ORDER BY journal

-- name: set_switch
INSERT INTO switches (scope, stopped_by, at, reason) VALUES (?, ?, ?, ?) ON CONFLICT DO NOTHING

-- name: clear_switch
DELETE FROM switches WHERE scope = ?

-- name: switches
SELECT scope, stopped_by, at, reason FROM switches ORDER BY scope

-- name: ended_runs
SELECT journal, thread FROM journals
WHERE kind = 'run' AND phase IN ('done', 'failed', 'cancelled', 'killed') AND updated_at < ?
    AND journal > ?
ORDER BY journal LIMIT ?

-- name: forks
-- Those on these threads, and of what: a fork is on the thread of its source.
SELECT fork.journal, json_extract(first.body, '$.fork_of')
FROM journals AS fork
JOIN events AS first ON first.journal = fork.journal AND first.position = 1
WHERE fork.kind = 'run' AND fork.thread IN (SELECT value FROM json_each(?))
    AND instr(first.body, '"fork_of":"') AND json_valid(first.body)

-- name: begun_by_others
-- Of these runs those that another run has begun which is still there, and by which.
SELECT child.parent, child.journal
FROM journals AS child
JOIN journals AS parent ON parent.journal = child.parent
WHERE child.journal IN (SELECT value FROM json_each(?))

-- name: idle_threads
SELECT journal FROM journals AS t
WHERE kind = 'thread' AND open_questions = 0 AND updated_at < ?
    AND NOT EXISTS (SELECT 1 FROM journals AS r WHERE r.kind = 'run' AND r.thread = t.journal)
ORDER BY journal LIMIT ?

-- name: fold_at
-- Only of a journal whose event at the position is of the same moment: another past has another one.
SELECT coalesce((SELECT position FROM folds WHERE journal = event.journal AND number = 0), 0)
FROM events AS event WHERE journal = ? AND position = ?
    -- layer sqlite-fold-of-same-past
    AND at = ?

-- name: write_fold
-- The checksum of its event binds the fold to its journal.
INSERT INTO folds (journal, number, position, event, checksum, body)
SELECT journal, ?, position, checksum, ?, ? FROM events WHERE journal = ? AND position = ?
ON CONFLICT (journal, number) DO UPDATE SET
    position = excluded.position, event = excluded.event, checksum = excluded.checksum,
    body = excluded.body

-- name: read_fold
SELECT number, checksum, body FROM folds AS fold
WHERE journal = ? AND (number > 0
    -- layer fold-bound-to-journal
    OR event = (
    SELECT checksum FROM events WHERE journal = fold.journal AND position = fold.position
))
ORDER BY number

-- name: delete_fold
DELETE FROM folds WHERE journal = ?

-- name: delete_events
DELETE FROM events WHERE journal = ?

-- name: delete_journal
DELETE FROM journals WHERE journal = ?

-- name: delete_blob_uses
DELETE FROM blob_uses WHERE journal = ?

-- name: delete_unused_blobs
DELETE FROM blobs WHERE NOT EXISTS (SELECT 1 FROM blob_uses AS u WHERE u.hash = blobs.hash)

-- name: insert_audit
INSERT INTO audit (number, id, previous, digest, record) VALUES (?, ?, ?, ?, ?)

-- name: audit_known
SELECT id FROM audit WHERE id IN (SELECT value FROM json_each(?))

-- name: audit_head
SELECT number, digest FROM audit ORDER BY number DESC LIMIT 1

-- name: audit_page
-- As bytes: the digest is over the bytes that are there.
SELECT number, previous, digest, CAST(record AS BLOB)
FROM audit WHERE number > ? ORDER BY number LIMIT ?
