-- name: append
INSERT INTO prx_records.record (record_id, kind, session_id, at, body)
SELECT record_id, kind, session_id, at, body
FROM unnest(%s::text[], %s::text[], %s::text[], %s::bigint[], %s::text[])
    WITH ORDINALITY AS batch (record_id, kind, session_id, at, body, place)
ORDER BY place
ON CONFLICT (record_id) DO NOTHING RETURNING arrival, record_id
-- name: know_session
INSERT INTO prx_records.session AS known (session_id, inferred, at, record_id, agent, env)
SELECT DISTINCT ON (session_id) session_id, inferred, at, record_id, agent, env
FROM unnest(%s::text[], %s::integer[], %s::bigint[], %s::text[], %s::text[], %s::text[])
    AS batch (session_id, inferred, at, record_id, agent, env)
ORDER BY session_id, inferred, at, record_id COLLATE "C"
ON CONFLICT (session_id) DO UPDATE SET
    inferred = excluded.inferred, at = excluded.at, record_id = excluded.record_id,
    agent = excluded.agent, env = excluded.env
WHERE (excluded.inferred, excluded.at, excluded.record_id) < (known.inferred, known.at, known.record_id)
-- name: know_ref
INSERT INTO prx_records.reference (ref, session_id)
SELECT * FROM unnest(%s::text[], %s::text[]) ON CONFLICT DO NOTHING
-- name: know_membership
INSERT INTO prx_records.membership (experiment_id, session_id)
SELECT * FROM unnest(%s::text[], %s::text[]) ON CONFLICT DO NOTHING
-- name: give
INSERT INTO prx_records.given (target_kind, target, arrival)
SELECT * FROM unnest(%s::text[], %s::text[], %s::bigint[])
-- name: touch
INSERT INTO prx_records.touch (session_id)
SELECT session_id FROM unnest(%s::text[]) WITH ORDINALITY AS batch (session_id, place) ORDER BY place
ON CONFLICT (session_id) DO UPDATE SET position = excluded.position
-- name: add_to_tally
INSERT INTO prx_records.tally AS known (kind, number) SELECT * FROM unnest(%s::text[], %s::bigint[])
ON CONFLICT (kind) DO UPDATE SET number = known.number + excluded.number
-- name: sessions_with_refs
SELECT session_id FROM prx_records.reference WHERE ref = ANY(%(targets)s::text[])
-- name: sessions_of_interactions
SELECT session_id FROM prx_records.record WHERE record_id = ANY(%(targets)s::text[]) AND kind = 'interaction'
-- name: records_of_sessions
SELECT session_id, body FROM prx_records.record WHERE session_id = ANY(%(sessions)s::text[])
-- name: feedback_given
SELECT given.target, record.body
FROM prx_records.given JOIN prx_records.record ON record.arrival = given.arrival
WHERE given.target_kind = %(kind)s AND given.target = ANY(%(targets)s::text[])
-- name: interaction
SELECT body FROM prx_records.record WHERE record_id = %(record_id)s AND kind = 'interaction'
-- name: prompts_seen
SELECT arrival, body FROM prx_records.record WHERE kind = 'prompt_seen' AND arrival > %(after)s ORDER BY arrival LIMIT %(limit)s
-- name: changed_sessions
SELECT position, session_id FROM prx_records.touch WHERE position > %(after)s ORDER BY position LIMIT %(limit)s
-- name: sessions
SELECT session.at, session.session_id FROM prx_records.session
-- name: sessions_of_experiment
JOIN prx_records.membership ON membership.experiment_id = %(experiment_id)s AND membership.session_id = session.session_id
-- name: sessions_all
WHERE TRUE
-- name: sessions_with_agent
AND session.agent = %(agent)s
-- name: sessions_with_env
AND session.env = %(env)s
-- name: sessions_with_since
AND session.at >= %(since)s
-- name: sessions_with_until
AND session.at < %(until)s
-- name: sessions_after
AND (session.at, session.session_id) > (%(at)s, %(session_id)s)
-- name: sessions_before
AND (session.at, session.session_id) < (%(at)s, %(session_id)s)
-- name: sessions_oldest_first
ORDER BY session.at, session.session_id LIMIT %(limit)s
-- name: sessions_newest_first
ORDER BY session.at DESC, session.session_id DESC LIMIT %(limit)s
-- name: put_score
INSERT INTO prx_records.score (session_id, agent, env, started_at, closes_at, closed, version, body)
SELECT * FROM unnest(
    %s::text[], %s::text[], %s::text[], %s::bigint[], %s::bigint[], %s::integer[], %s::text[], %s::text[]
)
ON CONFLICT (session_id) DO UPDATE SET
    agent = excluded.agent, env = excluded.env, started_at = excluded.started_at,
    closes_at = excluded.closes_at, closed = excluded.closed, version = excluded.version, body = excluded.body
-- name: drop_score_arms
DELETE FROM prx_records.score_arm WHERE session_id = ANY(%s::text[])
-- name: put_score_arm
INSERT INTO prx_records.score_arm (experiment_id, session_id)
SELECT * FROM unnest(%s::text[], %s::text[])
-- name: scores
SELECT started_at, session_id, body FROM prx_records.score WHERE TRUE
-- name: scores_with_agent
AND agent = %(agent)s
-- name: scores_with_env
AND env = %(env)s
-- name: scores_with_since
AND started_at >= %(since)s
-- name: scores_with_until
AND started_at < %(until)s
-- name: scores_with_experiment_id
AND session_id IN (SELECT session_id FROM prx_records.score_arm WHERE experiment_id = %(experiment_id)s)
-- name: scores_with_version
AND version = %(version)s
-- name: scores_closed
AND closed = 1
-- name: scores_after
AND (started_at, session_id) > (%(at)s, %(session_id)s)
-- name: scores_oldest_first
ORDER BY started_at, session_id LIMIT %(limit)s
-- name: unclosed
SELECT session_id FROM prx_records.score WHERE closed = 0 AND closes_at < %(closing_before)s ORDER BY closes_at, session_id LIMIT %(limit)s
-- name: cursor
SELECT value FROM prx_records.position WHERE name = %(name)s
-- name: set_cursor
INSERT INTO prx_records.position (name, value) VALUES (%(name)s, %(value)s) ON CONFLICT (name) DO UPDATE SET value = excluded.value
-- name: tallies
SELECT kind, number FROM prx_records.tally
-- name: count_sessions
SELECT COUNT(*) FROM prx_records.session
-- name: count_scores
SELECT COUNT(*) FROM prx_records.score
