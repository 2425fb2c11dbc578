-- Layout 1. Events lie in the order in which they came, whatever their journal, so that a batch of
-- many runs is a few pages at the end of the table. Clustered by journal it was twice as slow.

CREATE TABLE events (
    journal TEXT NOT NULL,
    position INTEGER NOT NULL,
    at REAL NOT NULL,
    version INTEGER NOT NULL,
    must_understand INTEGER NOT NULL,
    checksum INTEGER NOT NULL,
    append_id TEXT,                      -- on the first event of an append in this journal
    requested INTEGER NOT NULL,          -- whether that append was a request: see below
    body TEXT NOT NULL,
    -- layer place-can-taken-once
    PRIMARY KEY (journal, position)      -- the lock: no two appends can take one place
);

-- A request whose answer was lost is looked up here. A decision needs no index: if it was committed,
-- it begins right after the position its driver had folded.
-- layer request-can-taken-once
CREATE UNIQUE INDEX events_by_request ON events (append_id, journal)
WHERE requested AND append_id IS NOT NULL;

CREATE TABLE journals (
    journal TEXT NOT NULL PRIMARY KEY,
    kind TEXT NOT NULL,
    head INTEGER NOT NULL,
    thread TEXT NOT NULL,
    agent TEXT NOT NULL,
    parent TEXT NOT NULL,
    title TEXT NOT NULL,
    phase TEXT NOT NULL,
    driver TEXT NOT NULL,
    epoch INTEGER NOT NULL,
    wants_driver INTEGER NOT NULL,
    open_questions INTEGER NOT NULL,
    due_at REAL,
    created_at REAL NOT NULL,
    updated_at REAL NOT NULL,
    steps INTEGER NOT NULL,
    tokens INTEGER NOT NULL,
    usd REAL NOT NULL
) WITHOUT ROWID;

-- Partial, so that a step of a driven run touches none of them but the driver's own.
CREATE INDEX journals_by_thread ON journals (thread, journal);
CREATE INDEX journals_wanting ON journals (driver) WHERE wants_driver;
CREATE INDEX journals_due ON journals (due_at) WHERE due_at IS NOT NULL;

CREATE TABLE blobs (hash TEXT NOT NULL PRIMARY KEY, body BLOB NOT NULL) WITHOUT ROWID;
CREATE TABLE blob_uses (
    journal TEXT NOT NULL,
    hash TEXT NOT NULL,
    PRIMARY KEY (journal, hash)
) WITHOUT ROWID;
CREATE INDEX blob_uses_by_hash ON blob_uses (hash);

CREATE TABLE switches (
    scope TEXT NOT NULL PRIMARY KEY,
    stopped_by TEXT NOT NULL,
    at REAL NOT NULL,
    reason TEXT NOT NULL
) WITHOUT ROWID;
