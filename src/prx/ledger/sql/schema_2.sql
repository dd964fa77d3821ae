-- name: event_fixed_before
DROP TRIGGER event_fixed
-- name: event_fixed
CREATE TRIGGER event_fixed BEFORE UPDATE ON event
WHEN NEW.seq <> OLD.seq OR NEW.agent <> OLD.agent OR NEW.at <> OLD.at
    OR json_extract(NEW.body, '$.summary') IS NOT '[erased]'
BEGIN
    SELECT RAISE(ABORT, 'events are never changed; their text can be erased');
END
