-- name: document
CREATE TABLE document (
    ordinal INTEGER PRIMARY KEY,
    kind TEXT NOT NULL,
    key TEXT NOT NULL,
    agent TEXT,
    layer TEXT,
    state TEXT,
    at INTEGER NOT NULL,
    body TEXT NOT NULL,
    checksum INTEGER NOT NULL,
    UNIQUE (kind, key)
) STRICT
-- name: document_by_agent
CREATE INDEX document_by_agent ON document (kind, agent)
-- name: document_by_state
CREATE INDEX document_by_state ON document (kind, state)
-- name: document_kept
CREATE TRIGGER document_kept BEFORE DELETE ON document
BEGIN
    SELECT RAISE(ABORT, 'records of the ledger are never deleted');
END
-- name: part
CREATE TABLE part (
    ordinal INTEGER PRIMARY KEY,
    hash TEXT NOT NULL UNIQUE,
    body BLOB NOT NULL
) STRICT
-- name: label
CREATE TABLE label (
    agent TEXT NOT NULL,
    label TEXT NOT NULL,
    snapshot_id TEXT NOT NULL UNIQUE,
    PRIMARY KEY (agent, label)
) STRICT
-- name: label_fixed
CREATE TRIGGER label_fixed BEFORE UPDATE ON label
BEGIN
    SELECT RAISE(ABORT, 'labels of versions are never reused');
END
-- name: label_kept
CREATE TRIGGER label_kept BEFORE DELETE ON label
BEGIN
    SELECT RAISE(ABORT, 'labels of versions are never reused');
END
-- name: pointer
CREATE TABLE pointer (
    agent TEXT PRIMARY KEY,
    label TEXT NOT NULL,
    revision INTEGER NOT NULL,
    since INTEGER NOT NULL,
    checksum INTEGER NOT NULL,
    FOREIGN KEY (agent, label) REFERENCES label (agent, label)
) STRICT
-- name: pointer_rises
CREATE TRIGGER pointer_rises BEFORE UPDATE ON pointer WHEN NEW.revision <> OLD.revision + 1
BEGIN
    SELECT RAISE(ABORT, 'the revision of a pointer rises by one');
END
-- name: event
CREATE TABLE event (
    seq INTEGER PRIMARY KEY,
    agent TEXT NOT NULL,
    at INTEGER NOT NULL,
    body TEXT NOT NULL,
    checksum INTEGER NOT NULL
) STRICT
-- name: event_fixed
CREATE TRIGGER event_fixed BEFORE UPDATE ON event
BEGIN
    SELECT RAISE(ABORT, 'events are never changed');
END
-- name: event_kept
CREATE TRIGGER event_kept BEFORE DELETE ON event
BEGIN
    SELECT RAISE(ABORT, 'events are never deleted');
END
-- name: audit
CREATE TABLE audit (
    seq INTEGER PRIMARY KEY,
    prev TEXT NOT NULL UNIQUE,
    hash TEXT NOT NULL UNIQUE,
    at INTEGER NOT NULL,
    actor TEXT NOT NULL,
    kind TEXT NOT NULL,
    subject TEXT NOT NULL,
    body_hash TEXT NOT NULL
) STRICT
-- name: audit_gapless
CREATE TRIGGER audit_gapless BEFORE INSERT ON audit
WHEN NEW.seq <> (SELECT COALESCE(MAX(seq), 0) + 1 FROM audit)
BEGIN
    SELECT RAISE(ABORT, 'audit rows follow each other without a gap');
END
-- name: audit_fixed
CREATE TRIGGER audit_fixed BEFORE UPDATE ON audit
BEGIN
    SELECT RAISE(ABORT, 'audit rows are never changed');
END
-- name: audit_kept
CREATE TRIGGER audit_kept BEFORE DELETE ON audit
BEGIN
    SELECT RAISE(ABORT, 'audit rows are never deleted');
END
-- name: audit_body
CREATE TABLE audit_body (
    seq INTEGER PRIMARY KEY REFERENCES audit (seq),
    body TEXT NOT NULL
) STRICT
-- name: audit_body_fixed
CREATE TRIGGER audit_body_fixed BEFORE UPDATE ON audit_body
BEGIN
    SELECT RAISE(ABORT, 'the text of an audit row is never changed');
END
