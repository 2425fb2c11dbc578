-- Layout 3. Stored folds: what a run's journal adds up to at a position. They are derived, and may
-- be deleted at any time: then the journal is read whole. The journal's row is looked for when the
-- fold is committed: to refer to it locks it, and an append would wait for as long as that is held.
CREATE TABLE folds (
    journal text COLLATE "C" NOT NULL
        REFERENCES journals ON DELETE CASCADE
        -- layer fold-refers-to-head-last
        DEFERRABLE INITIALLY DEFERRED,
    number integer NOT NULL,             -- 0 is the head, which names the parts that follow
    position bigint NOT NULL,
    event bigint NOT NULL,               -- the checksum of the event at that position
    checksum bigint NOT NULL,
    body bytea NOT NULL,
    PRIMARY KEY (journal, number)
);
