-- name: record
CREATE TABLE record (
    arrival INTEGER PRIMARY KEY,
    record_id TEXT NOT NULL UNIQUE,
    kind TEXT NOT NULL,
    session_id TEXT,
    at INTEGER NOT NULL,
    body TEXT NOT NULL
) STRICT
-- name: record_by_session
CREATE INDEX record_by_session ON record (session_id) WHERE session_id IS NOT NULL
-- name: prompt_by_arrival
CREATE INDEX prompt_by_arrival ON record (arrival) WHERE kind = 'prompt_seen'
-- name: session
CREATE TABLE session (
    session_id TEXT PRIMARY KEY,
    inferred INTEGER NOT NULL,
    at INTEGER NOT NULL,
    record_id TEXT NOT NULL,
    agent TEXT NOT NULL,
    env TEXT NOT NULL
) STRICT, WITHOUT ROWID
-- name: session_by_time
CREATE INDEX session_by_time ON session (at, session_id)
-- name: session_by_agent
CREATE INDEX session_by_agent ON session (agent, at, session_id)
-- name: reference
CREATE TABLE reference (
    ref TEXT NOT NULL,
    session_id TEXT NOT NULL,
    PRIMARY KEY (ref, session_id)
) STRICT, WITHOUT ROWID
-- name: given
CREATE TABLE given (
    target_kind TEXT NOT NULL,
    target TEXT NOT NULL,
    arrival INTEGER NOT NULL,
    PRIMARY KEY (target_kind, target, arrival)
) STRICT, WITHOUT ROWID
-- name: membership
CREATE TABLE membership (
    experiment_id TEXT NOT NULL,
    session_id TEXT NOT NULL,
    PRIMARY KEY (experiment_id, session_id)
) STRICT, WITHOUT ROWID
-- name: touch
CREATE TABLE touch (
    position INTEGER PRIMARY KEY AUTOINCREMENT,
    session_id TEXT NOT NULL UNIQUE
) STRICT
-- name: score
CREATE TABLE score (
    session_id TEXT PRIMARY KEY,
    agent TEXT NOT NULL,
    env TEXT NOT NULL,
    started_at INTEGER NOT NULL,
    closes_at INTEGER NOT NULL,
    closed INTEGER NOT NULL,
    version TEXT,
    body TEXT NOT NULL
) STRICT
-- name: score_by_time
CREATE INDEX score_by_time ON score (started_at, session_id)
-- name: score_by_agent
CREATE INDEX score_by_agent ON score (agent, started_at, session_id)
-- name: score_arm
CREATE TABLE score_arm (
    experiment_id TEXT NOT NULL,
    session_id TEXT NOT NULL,
    PRIMARY KEY (experiment_id, session_id)
) STRICT, WITHOUT ROWID
-- name: score_arm_by_session
CREATE INDEX score_arm_by_session ON score_arm (session_id)
-- name: score_open
CREATE INDEX score_open ON score (closes_at, session_id) WHERE closed = 0
-- name: position
CREATE TABLE position (
    name TEXT PRIMARY KEY,
    value INTEGER NOT NULL
) STRICT
-- name: tally
CREATE TABLE tally (
    kind TEXT PRIMARY KEY,
    number INTEGER NOT NULL
) STRICT
