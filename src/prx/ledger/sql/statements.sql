-- name: document
SELECT kind, key, agent, layer, state, at, body, checksum FROM document WHERE kind = :kind AND key = :key
-- name: documents
SELECT kind, key, agent, layer, state, at, body, checksum FROM document WHERE kind = :kind
-- name: count
SELECT COUNT(*) FROM document WHERE kind = :kind
-- name: with_agent
AND agent = :agent
-- name: with_layer
AND layer = :layer
-- name: with_states
AND state IN (SELECT value FROM json_each(:states))
-- name: with_since
AND at >= :since
-- name: with_until
AND at < :until
-- name: oldest_first
ORDER BY ordinal LIMIT :limit OFFSET :offset
-- name: newest_first
ORDER BY ordinal DESC LIMIT :limit OFFSET :offset
-- name: agents
SELECT DISTINCT agent FROM document
WHERE kind IN (SELECT value FROM json_each(:kinds)) AND agent IS NOT NULL ORDER BY agent
-- name: part
SELECT body FROM part WHERE hash = :hash
-- name: labelled
SELECT snapshot_id FROM label WHERE agent = :agent AND label = :label
-- name: pointer
SELECT agent, label, revision, since, checksum FROM pointer WHERE agent = :agent
-- name: pointers
SELECT agent, label, revision, since, checksum FROM pointer ORDER BY agent
-- name: events
SELECT seq, agent, at, body, checksum FROM event WHERE seq > :after ORDER BY seq LIMIT :limit
-- name: audit
SELECT a.seq, a.prev, a.hash, a.at, a.actor, a.kind, a.subject, a.body_hash, b.body
FROM audit AS a LEFT JOIN audit_body AS b ON b.seq = a.seq
WHERE a.seq > :after ORDER BY a.seq LIMIT :limit
-- name: audit_head
SELECT seq, hash FROM audit ORDER BY seq DESC LIMIT 1
-- name: put
INSERT INTO document (kind, key, agent, layer, state, at, body, checksum) VALUES (?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (kind, key) DO UPDATE SET
    agent = excluded.agent, layer = excluded.layer, state = excluded.state, at = excluded.at,
    body = excluded.body, checksum = excluded.checksum
-- name: put_part
INSERT INTO part (hash, body) VALUES (:hash, :body)
ON CONFLICT (hash) DO UPDATE SET body = excluded.body WHERE LENGTH(part.body) = 0
-- name: erase_part
UPDATE part SET body = X'' WHERE hash = :hash
-- name: name_version
INSERT INTO label (agent, label, snapshot_id) VALUES (:agent, :label, :snapshot_id)
-- name: point
INSERT INTO pointer (agent, label, revision, since, checksum) VALUES (?, ?, ?, ?, ?)
ON CONFLICT (agent) DO UPDATE SET
    label = excluded.label, revision = excluded.revision, since = excluded.since, checksum = excluded.checksum
-- name: append_event
INSERT INTO event (seq, agent, at, body, checksum) VALUES (?, ?, ?, ?, ?)
-- name: replace_event
UPDATE event SET body = :body, checksum = :checksum WHERE seq = :seq
-- name: next_event
SELECT COALESCE(MAX(seq), 0) + 1 FROM event
-- name: append_audit
INSERT INTO audit (seq, prev, hash, at, actor, kind, subject, body_hash)
VALUES (:seq, :prev, :hash, :at, :actor, :kind, :subject, :body_hash)
-- name: append_audit_body
INSERT INTO audit_body (seq, body) VALUES (:seq, :body)
-- name: erase_audit_body
DELETE FROM audit_body WHERE seq = :seq
