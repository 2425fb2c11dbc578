-- Layout 2. The audit: one record for each control, each with the digest of the one before it.
-- No purge removes any of it.
CREATE TABLE audit (
    number INTEGER NOT NULL PRIMARY KEY,
    id TEXT NOT NULL UNIQUE,             -- a record that is written again is written once
    previous TEXT NOT NULL,
    digest TEXT NOT NULL,
    record TEXT NOT NULL
);
