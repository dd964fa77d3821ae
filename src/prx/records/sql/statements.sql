-- name: append
INSERT INTO record (record_id, kind, session_id, at, body) VALUES (?, ?, ?, ?, ?)
ON CONFLICT (record_id) DO NOTHING RETURNING arrival, record_id
-- name: know_session
INSERT INTO session (session_id, inferred, at, record_id, agent, env) VALUES (?, ?, ?, ?, ?, ?)
ON CONFLICT (session_id) DO UPDATE SET
    inferred = excluded.inferred, at = excluded.at, record_id = excluded.record_id,
    agent = excluded.agent, env = excluded.env
WHERE (excluded.inferred, excluded.at, excluded.record_id) < (session.inferred, session.at, session.record_id)
-- name: know_ref
INSERT OR IGNORE INTO reference (ref, session_id) VALUES (?, ?)
-- name: know_membership
INSERT OR IGNORE INTO membership (experiment_id, session_id) VALUES (?, ?)
-- name: give
INSERT INTO given (target_kind, target, arrival) VALUES (?, ?, ?)
-- name: touch
INSERT OR REPLACE INTO touch (session_id) VALUES (?)
-- name: add_to_tally
INSERT INTO tally (kind, number) VALUES (?, ?) ON CONFLICT (kind) DO UPDATE SET number = number + excluded.number
-- name: sessions_with_refs
SELECT session_id FROM reference WHERE ref IN (SELECT value FROM json_each(:targets))
-- name: sessions_of_interactions
SELECT session_id FROM record WHERE record_id IN (SELECT value FROM json_each(:targets)) AND kind = 'interaction'
-- name: records_of_sessions
SELECT session_id, body FROM record WHERE session_id IN (SELECT value FROM json_each(:sessions))
-- name: feedback_given
SELECT given.target, record.body
FROM given JOIN record ON record.arrival = given.arrival
WHERE given.target_kind = :kind AND given.target IN (SELECT value FROM json_each(:targets))
-- name: interaction
SELECT body FROM record WHERE record_id = :record_id AND kind = 'interaction'
-- name: prompts_seen
SELECT arrival, body FROM record WHERE kind = 'prompt_seen' AND arrival > :after ORDER BY arrival LIMIT :limit
-- name: changed_sessions
SELECT position, session_id FROM touch WHERE position > :after ORDER BY position LIMIT :limit
-- name: sessions
SELECT session.at, session.session_id FROM session
-- name: sessions_of_experiment
CROSS JOIN membership ON membership.experiment_id = :experiment_id AND membership.session_id = session.session_id
-- name: sessions_all
WHERE TRUE
-- name: sessions_with_agent
AND session.agent = :agent
-- name: sessions_with_env
AND session.env = :env
-- name: sessions_with_since
AND session.at >= :since
-- name: sessions_with_until
AND session.at < :until
-- name: sessions_after
AND (session.at, session.session_id) > (:at, :session_id)
-- name: sessions_before
AND (session.at, session.session_id) < (:at, :session_id)
-- name: sessions_oldest_first
ORDER BY session.at, session.session_id LIMIT :limit
-- name: sessions_newest_first
ORDER BY session.at DESC, session.session_id DESC LIMIT :limit
-- name: put_score
INSERT OR REPLACE INTO score
    (session_id, agent, env, started_at, closes_at, closed, version, body)
VALUES (?, ?, ?, ?, ?, ?, ?, ?)
-- name: drop_score_arms
DELETE FROM score_arm WHERE session_id = ?
-- name: put_score_arm
INSERT INTO score_arm (experiment_id, session_id) VALUES (?, ?)
-- name: scores
SELECT started_at, session_id, body FROM score WHERE TRUE
-- name: scores_with_agent
AND agent = :agent
-- name: scores_with_env
AND env = :env
-- name: scores_with_since
AND started_at >= :since
-- name: scores_with_until
AND started_at < :until
-- name: scores_with_experiment_id
AND session_id IN (SELECT session_id FROM score_arm WHERE experiment_id = :experiment_id)
-- name: scores_with_version
AND version = :version
-- name: scores_closed
AND closed = 1
-- name: scores_after
AND (started_at, session_id) > (:at, :session_id)
-- name: scores_oldest_first
ORDER BY started_at, session_id LIMIT :limit
-- name: unclosed
SELECT session_id FROM score WHERE closed = 0 AND closes_at < :closing_before ORDER BY closes_at, session_id LIMIT :limit
-- name: cursor
SELECT value FROM position WHERE name = :name
-- name: set_cursor
INSERT INTO position (name, value) VALUES (:name, :value) ON CONFLICT (name) DO UPDATE SET value = excluded.value
-- name: tallies
SELECT kind, number FROM tally
-- name: count_sessions
SELECT COUNT(*) FROM session
-- name: count_scores
SELECT COUNT(*) FROM score
