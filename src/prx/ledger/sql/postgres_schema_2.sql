-- name: event_fixed_before
DROP TRIGGER event_fixed ON prx_ledger.event
-- name: event_kept
CREATE TRIGGER event_kept BEFORE DELETE OR TRUNCATE ON prx_ledger.event
FOR EACH STATEMENT EXECUTE FUNCTION prx_ledger.refuse('events are never deleted')
-- name: event_fixed
CREATE TRIGGER event_fixed BEFORE UPDATE ON prx_ledger.event
FOR EACH ROW WHEN (
    NEW.seq <> OLD.seq OR NEW.agent <> OLD.agent OR NEW.at <> OLD.at
    OR (NEW.body::json ->> 'summary') IS DISTINCT FROM '[erased]'
)
EXECUTE FUNCTION prx_ledger.refuse('events are never changed; their text can be erased')
