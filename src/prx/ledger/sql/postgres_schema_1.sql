-- name: refuse
CREATE FUNCTION prx_ledger.refuse() RETURNS trigger LANGUAGE plpgsql AS $body$
BEGIN
    RAISE EXCEPTION '%', TG_ARGV[0];
END
$body$
-- name: document
CREATE TABLE prx_ledger.document (
    ordinal BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    kind TEXT COLLATE "C" NOT NULL,
    key TEXT COLLATE "C" NOT NULL,
    agent TEXT COLLATE "C",
    layer TEXT COLLATE "C",
    state TEXT COLLATE "C",
    at BIGINT NOT NULL,
    body TEXT NOT NULL,
    checksum BIGINT NOT NULL,
    UNIQUE (kind, key)
)
-- name: document_in_order
CREATE INDEX document_in_order ON prx_ledger.document (kind, ordinal)
-- name: document_by_agent
CREATE INDEX document_by_agent ON prx_ledger.document (kind, agent, ordinal)
-- name: document_by_state
CREATE INDEX document_by_state ON prx_ledger.document (kind, state, ordinal)
-- name: document_kept
CREATE TRIGGER document_kept BEFORE DELETE OR TRUNCATE ON prx_ledger.document
FOR EACH STATEMENT EXECUTE FUNCTION prx_ledger.refuse('records of the ledger are never deleted')
-- name: part
CREATE TABLE prx_ledger.part (
    ordinal BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    hash TEXT COLLATE "C" NOT NULL UNIQUE,
    body BYTEA NOT NULL
)
-- name: label
CREATE TABLE prx_ledger.label (
    agent TEXT COLLATE "C" NOT NULL,
    label TEXT COLLATE "C" NOT NULL,
    snapshot_id TEXT COLLATE "C" NOT NULL UNIQUE,
    PRIMARY KEY (agent, label)
)
-- name: label_fixed
CREATE TRIGGER label_fixed BEFORE UPDATE OR DELETE OR TRUNCATE ON prx_ledger.label
FOR EACH STATEMENT EXECUTE FUNCTION prx_ledger.refuse('labels of versions are never reused')
-- name: pointer
CREATE TABLE prx_ledger.pointer (
    agent TEXT COLLATE "C" PRIMARY KEY,
    label TEXT COLLATE "C" NOT NULL,
    revision BIGINT NOT NULL,
    since BIGINT NOT NULL,
    checksum BIGINT NOT NULL,
    FOREIGN KEY (agent, label) REFERENCES prx_ledger.label (agent, label)
)
-- name: pointer_rises
CREATE TRIGGER pointer_rises BEFORE UPDATE ON prx_ledger.pointer
FOR EACH ROW WHEN (NEW.revision <> OLD.revision + 1)
EXECUTE FUNCTION prx_ledger.refuse('the revision of a pointer rises by one')
-- name: event
CREATE TABLE prx_ledger.event (
    seq BIGINT PRIMARY KEY,
    agent TEXT COLLATE "C" NOT NULL,
    at BIGINT NOT NULL,
    body TEXT NOT NULL,
    checksum BIGINT NOT NULL
)
-- name: event_fixed
CREATE TRIGGER event_fixed BEFORE UPDATE OR DELETE OR TRUNCATE ON prx_ledger.event
FOR EACH STATEMENT EXECUTE FUNCTION prx_ledger.refuse('events are never changed and never deleted')
-- name: audit
CREATE TABLE prx_ledger.audit (
    seq BIGINT PRIMARY KEY,
    prev TEXT COLLATE "C" NOT NULL UNIQUE,
    hash TEXT COLLATE "C" NOT NULL UNIQUE,
    at BIGINT NOT NULL,
    actor TEXT COLLATE "C" NOT NULL,
    kind TEXT COLLATE "C" NOT NULL,
    subject TEXT COLLATE "C" NOT NULL,
    body_hash TEXT COLLATE "C" NOT NULL
)
-- name: follows
CREATE FUNCTION prx_ledger.follows() RETURNS trigger LANGUAGE plpgsql AS $body$
BEGIN
    IF NEW.seq <> (SELECT COALESCE(MAX(seq), 0) + 1 FROM prx_ledger.audit) THEN
        RAISE EXCEPTION 'audit rows follow each other without a gap';
    END IF;
    RETURN NEW;
END
$body$
-- name: audit_gapless
CREATE TRIGGER audit_gapless BEFORE INSERT ON prx_ledger.audit
FOR EACH ROW EXECUTE FUNCTION prx_ledger.follows()
-- name: audit_fixed
CREATE TRIGGER audit_fixed BEFORE UPDATE OR DELETE OR TRUNCATE ON prx_ledger.audit
FOR EACH STATEMENT EXECUTE FUNCTION prx_ledger.refuse('audit rows are never changed and never deleted')
-- name: audit_body
CREATE TABLE prx_ledger.audit_body (
    seq BIGINT PRIMARY KEY REFERENCES prx_ledger.audit (seq),
    body TEXT NOT NULL
)
-- name: audit_body_fixed
CREATE TRIGGER audit_body_fixed BEFORE UPDATE OR TRUNCATE ON prx_ledger.audit_body
FOR EACH STATEMENT EXECUTE FUNCTION prx_ledger.refuse('the text of an audit row is never changed')
