-- name: document
SELECT kind, key, agent, layer, state, at, body, checksum FROM prx_ledger.document WHERE kind = %(kind)s AND key = %(key)s
-- name: documents
SELECT kind, key, agent, layer, state, at, body, checksum FROM prx_ledger.document WHERE kind = %(kind)s
-- name: count
SELECT COUNT(*) FROM prx_ledger.document WHERE kind = %(kind)s
-- name: with_agent
AND agent = %(agent)s
-- name: with_layer
AND layer = %(layer)s
-- name: with_states
AND state = ANY(%(states)s::text[])
-- name: with_since
AND at >= %(since)s
-- name: with_until
AND at < %(until)s
-- name: oldest_first
ORDER BY ordinal LIMIT %(limit)s OFFSET %(offset)s
-- name: newest_first
ORDER BY ordinal DESC LIMIT %(limit)s OFFSET %(offset)s
-- name: agents
SELECT DISTINCT agent FROM prx_ledger.document
WHERE kind = ANY(%(kinds)s::text[]) AND agent IS NOT NULL ORDER BY agent
-- name: part
SELECT body FROM prx_ledger.part WHERE hash = %(hash)s
-- name: labelled
SELECT snapshot_id FROM prx_ledger.label WHERE agent = %(agent)s AND label = %(label)s
-- name: pointer
SELECT agent, label, revision, since, checksum FROM prx_ledger.pointer WHERE agent = %(agent)s
-- name: pointers
SELECT agent, label, revision, since, checksum FROM prx_ledger.pointer ORDER BY agent
-- name: events
SELECT seq, agent, at, body, checksum FROM prx_ledger.event WHERE seq > %(after)s ORDER BY seq LIMIT %(limit)s
-- name: audit
SELECT a.seq, a.prev, a.hash, a.at, a.actor, a.kind, a.subject, a.body_hash, b.body
FROM prx_ledger.audit AS a LEFT JOIN prx_ledger.audit_body AS b ON b.seq = a.seq
WHERE a.seq > %(after)s ORDER BY a.seq LIMIT %(limit)s
-- name: audit_head
SELECT seq, hash FROM prx_ledger.audit ORDER BY seq DESC LIMIT 1
-- name: put
INSERT INTO prx_ledger.document (kind, key, agent, layer, state, at, body, checksum) VALUES (%s, %s, %s, %s, %s, %s, %s, %s)
ON CONFLICT (kind, key) DO UPDATE SET
    agent = excluded.agent, layer = excluded.layer, state = excluded.state, at = excluded.at,
    body = excluded.body, checksum = excluded.checksum
-- name: put_part
INSERT INTO prx_ledger.part (hash, body) VALUES (%(hash)s, %(body)s)
ON CONFLICT (hash) DO UPDATE SET body = excluded.body WHERE LENGTH(prx_ledger.part.body) = 0
-- name: erase_part
UPDATE prx_ledger.part SET body = ''::bytea WHERE hash = %(hash)s
-- name: name_version
INSERT INTO prx_ledger.label (agent, label, snapshot_id) VALUES (%(agent)s, %(label)s, %(snapshot_id)s)
-- name: point
INSERT INTO prx_ledger.pointer (agent, label, revision, since, checksum) VALUES (%s, %s, %s, %s, %s)
ON CONFLICT (agent) DO UPDATE SET
    label = excluded.label, revision = excluded.revision, since = excluded.since, checksum = excluded.checksum
-- name: append_event
INSERT INTO prx_ledger.event (seq, agent, at, body, checksum) VALUES (%s, %s, %s, %s, %s)
-- name: replace_event
UPDATE prx_ledger.event SET body = %(body)s, checksum = %(checksum)s WHERE seq = %(seq)s
-- name: next_event
SELECT COALESCE(MAX(seq), 0) + 1 FROM prx_ledger.event
-- name: append_audit
INSERT INTO prx_ledger.audit (seq, prev, hash, at, actor, kind, subject, body_hash)
VALUES (%(seq)s, %(prev)s, %(hash)s, %(at)s, %(actor)s, %(kind)s, %(subject)s, %(body_hash)s)
-- name: append_audit_body
INSERT INTO prx_ledger.audit_body (seq, body) VALUES (%(seq)s, %(body)s)
-- name: erase_audit_body
DELETE FROM prx_ledger.audit_body WHERE seq = %(seq)s
