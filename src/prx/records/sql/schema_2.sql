-- name: salt
CREATE TABLE salt (
    one INTEGER PRIMARY KEY CHECK (one = 1),
    salt TEXT NOT NULL
) STRICT
-- name: salted
INSERT INTO salt (one, salt) VALUES (1, LOWER(HEX(RANDOMBLOB(16))))
-- name: tombstone
CREATE TABLE tombstone (
    digest TEXT PRIMARY KEY,
    until INTEGER,
    session_id TEXT
) STRICT, WITHOUT ROWID
-- name: tombstone_pending
CREATE INDEX tombstone_pending ON tombstone (session_id) WHERE session_id IS NOT NULL
-- name: erasure
CREATE TABLE erasure (
    number INTEGER PRIMARY KEY,
    digest TEXT NOT NULL,
    at INTEGER NOT NULL,
    done INTEGER NOT NULL
) STRICT
