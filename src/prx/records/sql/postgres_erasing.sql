-- name: salt
SELECT salt FROM prx_records.salt
-- name: any_tombstone
SELECT EXISTS (SELECT 1 FROM prx_records.tombstone)
-- name: tombstones
SELECT digest, until FROM prx_records.tombstone WHERE digest = ANY(%(digests)s::text[])
-- name: put_tombstone
INSERT INTO prx_records.tombstone AS known (digest, until, session_id)
SELECT * FROM unnest(%s::text[], %s::bigint[], %s::text[])
ON CONFLICT (digest) DO UPDATE SET
    until = CASE WHEN known.until IS NULL OR excluded.until IS NULL THEN NULL
        ELSE GREATEST(known.until, excluded.until) END,
    session_id = COALESCE(excluded.session_id, known.session_id)
-- name: pending
SELECT session_id FROM prx_records.tombstone WHERE session_id IS NOT NULL ORDER BY session_id LIMIT %(limit)s
-- name: settle
UPDATE prx_records.tombstone SET session_id = NULL WHERE session_id = ANY(%(sessions)s::text[])
-- name: erasures
SELECT number, digest, at, done FROM prx_records.erasure WHERE number > %(after)s ORDER BY number
-- name: add_erasure
INSERT INTO prx_records.erasure (number, digest, at, done)
SELECT COALESCE(MAX(number), 0) + 1, %(digest)s, %(at)s, 0 FROM prx_records.erasure
-- name: finish_erasures
UPDATE prx_records.erasure SET done = 1 WHERE digest = %(digest)s
-- name: scoped
SELECT arrival, body FROM prx_records.record
WHERE kind IN ('session_start', 'memory_written') AND arrival > %(after)s ORDER BY arrival LIMIT %(limit)s
-- name: kinds_of_sessions
SELECT record_id, kind FROM prx_records.record WHERE session_id = ANY(%(sessions)s::text[])
-- name: refs_of_sessions
SELECT DISTINCT ref FROM prx_records.reference WHERE session_id = ANY(%(sessions)s::text[])
-- name: delete_given_records
DELETE FROM prx_records.record WHERE arrival IN (
    SELECT arrival FROM prx_records.given WHERE target_kind = %(kind)s AND target = ANY(%(targets)s::text[])
) RETURNING kind
-- name: delete_given
DELETE FROM prx_records.given WHERE target_kind = %(kind)s AND target = ANY(%(targets)s::text[])
-- name: delete_records
DELETE FROM prx_records.record WHERE session_id = ANY(%(sessions)s::text[]) RETURNING kind
-- name: blank_prompts
UPDATE prx_records.record SET kind = 'erased', body = '' WHERE record_id = ANY(%(ids)s::text[]) AND kind = 'prompt_seen' RETURNING record_id
-- name: delete_scores
DELETE FROM prx_records.score WHERE session_id = ANY(%(sessions)s::text[]) RETURNING session_id
-- name: delete_score_arms
DELETE FROM prx_records.score_arm WHERE session_id = ANY(%(sessions)s::text[])
-- name: delete_references
DELETE FROM prx_records.reference WHERE session_id = ANY(%(sessions)s::text[])
-- name: delete_memberships
DELETE FROM prx_records.membership WHERE session_id = ANY(%(sessions)s::text[])
-- name: delete_touches
DELETE FROM prx_records.touch WHERE session_id = ANY(%(sessions)s::text[])
-- name: delete_sessions
DELETE FROM prx_records.session WHERE session_id = ANY(%(sessions)s::text[]) RETURNING session_id
