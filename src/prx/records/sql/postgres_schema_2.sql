-- name: salt
CREATE TABLE prx_records.salt (
    one INTEGER PRIMARY KEY CHECK (one = 1),
    salt TEXT NOT NULL
)
-- name: salted
INSERT INTO prx_records.salt (one, salt) VALUES (1, gen_random_uuid()::text)
-- name: tombstone
CREATE TABLE prx_records.tombstone (
    digest TEXT COLLATE "C" PRIMARY KEY,
    until BIGINT,
    session_id TEXT COLLATE "C"
)
-- name: tombstone_pending
CREATE INDEX tombstone_pending ON prx_records.tombstone (session_id) WHERE session_id IS NOT NULL
-- name: erasure
CREATE TABLE prx_records.erasure (
    number BIGINT PRIMARY KEY,
    digest TEXT COLLATE "C" NOT NULL,
    at BIGINT NOT NULL,
    done INTEGER NOT NULL
)
