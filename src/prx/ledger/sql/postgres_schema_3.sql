-- name: announce
CREATE FUNCTION prx_ledger.announce() RETURNS trigger LANGUAGE plpgsql AS $body$
BEGIN
    PERFORM pg_notify('prx_serving', '');
    RETURN NULL;
END
$body$
-- name: pointer_announced
CREATE TRIGGER pointer_announced AFTER INSERT OR UPDATE ON prx_ledger.pointer
FOR EACH ROW EXECUTE FUNCTION prx_ledger.announce()
-- name: document_announced
CREATE TRIGGER document_announced AFTER INSERT OR UPDATE ON prx_ledger.document
FOR EACH ROW WHEN (NEW.kind IN ('control', 'experiment'))
EXECUTE FUNCTION prx_ledger.announce()
