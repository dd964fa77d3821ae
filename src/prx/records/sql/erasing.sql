-- name: salt
SELECT salt FROM salt
-- name: any_tombstone
SELECT EXISTS (SELECT 1 FROM tombstone)
-- name: tombstones
SELECT digest, until FROM tombstone WHERE digest IN (SELECT value FROM json_each(:digests))
-- name: put_tombstone
INSERT INTO tombstone (digest, until, session_id) VALUES (?, ?, ?)
ON CONFLICT (digest) DO UPDATE SET
    until = CASE WHEN tombstone.until IS NULL OR excluded.until IS NULL THEN NULL
        ELSE MAX(tombstone.until, excluded.until) END,
    session_id = COALESCE(excluded.session_id, tombstone.session_id)
-- name: pending
SELECT session_id FROM tombstone WHERE session_id IS NOT NULL ORDER BY session_id LIMIT :limit
-- name: settle
UPDATE tombstone SET session_id = NULL WHERE session_id IN (SELECT value FROM json_each(:sessions))
-- name: erasures
SELECT number, digest, at, done FROM erasure WHERE number > :after ORDER BY number
-- name: add_erasure
INSERT INTO erasure (number, digest, at, done)
SELECT COALESCE(MAX(number), 0) + 1, :digest, :at, 0 FROM erasure
-- name: finish_erasures
UPDATE erasure SET done = 1 WHERE digest = :digest
-- name: scoped
SELECT arrival, body FROM record
WHERE kind IN ('session_start', 'memory_written') AND arrival > :after ORDER BY arrival LIMIT :limit
-- name: kinds_of_sessions
SELECT record_id, kind FROM record WHERE session_id IN (SELECT value FROM json_each(:sessions))
-- name: refs_of_sessions
SELECT DISTINCT ref FROM reference WHERE session_id IN (SELECT value FROM json_each(:sessions))
-- name: delete_given_records
DELETE FROM record WHERE arrival IN (
    SELECT arrival FROM given WHERE target_kind = :kind AND target IN (SELECT value FROM json_each(:targets))
) RETURNING kind
-- name: delete_given
DELETE FROM given WHERE target_kind = :kind AND target IN (SELECT value FROM json_each(:targets))
-- name: delete_records
DELETE FROM record WHERE session_id IN (SELECT value FROM json_each(:sessions)) RETURNING kind
-- name: blank_prompts
UPDATE record SET kind = 'erased', body = '' WHERE record_id IN (SELECT value FROM json_each(:ids)) AND kind = 'prompt_seen' RETURNING record_id
-- name: delete_scores
DELETE FROM score WHERE session_id IN (SELECT value FROM json_each(:sessions)) RETURNING session_id
-- name: delete_score_arms
DELETE FROM score_arm WHERE session_id IN (SELECT value FROM json_each(:sessions))
-- name: delete_references
DELETE FROM reference WHERE session_id IN (SELECT value FROM json_each(:sessions))
-- name: delete_memberships
DELETE FROM membership WHERE session_id IN (SELECT value FROM json_each(:sessions))
-- name: delete_touches
DELETE FROM touch WHERE session_id IN (SELECT value FROM json_each(:sessions))
-- name: delete_sessions
DELETE FROM session WHERE session_id IN (SELECT value FROM json_each(:sessions)) RETURNING session_id
