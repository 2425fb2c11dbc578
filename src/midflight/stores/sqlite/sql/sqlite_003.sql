-- Layout 3. Stored folds: what a run's journal adds up to at a position. They are derived, and may
-- be deleted at any time: then the journal is read whole.
CREATE TABLE folds (
    journal TEXT NOT NULL,
    number INTEGER NOT NULL,             -- 0 is the head, which names the parts that follow
    position INTEGER NOT NULL,
    event INTEGER NOT NULL,              -- the checksum of the event at that position
    checksum INTEGER NOT NULL,
    body BLOB NOT NULL,
    PRIMARY KEY (journal, number)
);
