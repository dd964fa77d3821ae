-- name: keep
INSERT INTO entry (memory_id, agent, env, scope, derived, subject, valid_from, valid_to, created_at, body)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (memory_id) DO NOTHING RETURNING position
-- name: seek
INSERT INTO sought (rowid, terms, scope) VALUES (?, ?, ?)
-- name: forget_uses
DELETE FROM used WHERE session_id = ?
-- name: use
INSERT INTO used (session_id, memory_id, scopes, retrieved, confirmed, contradicted, alone, last_used)
VALUES (?, ?, ?, ?, ?, ?, ?, ?)
-- name: forget_queries
DELETE FROM asked WHERE session_id = ?
-- name: ask
INSERT OR REPLACE INTO asked (query_id, session_id, agent, env, at, body) VALUES (?, ?, ?, ?, ?, ?)
-- name: recall
SELECT entry.body FROM sought CROSS JOIN entry ON entry.position = sought.rowid
WHERE sought MATCH :match
AND entry.scope IN (SELECT value FROM json_each(:scopes))
AND entry.valid_from <= :at AND (entry.valid_to IS NULL OR entry.valid_to > :at)
AND (entry.derived = 0 OR entry.memory_id IN (SELECT value FROM json_each(:derived)))
AND entry.memory_id NOT IN (SELECT value FROM json_each(:archived))
AND NOT EXISTS (
    SELECT 1 FROM entry AS newer
    WHERE newer.scope = entry.scope AND newer.subject = entry.subject AND newer.valid_from <= :at
    AND (newer.valid_from, newer.memory_id) > (entry.valid_from, entry.memory_id)
)
ORDER BY sought.rank, entry.memory_id LIMIT :limit
-- name: readable
SELECT COUNT(*) FROM entry WHERE scope IN (SELECT value FROM json_each(:scopes)) AND derived = 0
-- name: counts
SELECT used.memory_id, SUM(used.retrieved), SUM(used.confirmed), SUM(used.contradicted), SUM(used.alone),
    MAX(used.last_used)
FROM used JOIN entry ON entry.memory_id = used.memory_id
WHERE used.memory_id IN (SELECT value FROM json_each(:ids))
AND entry.scope IN (SELECT value FROM json_each(used.scopes))
GROUP BY used.memory_id
-- name: entries
SELECT body FROM entry WHERE agent = :agent AND env = :env ORDER BY created_at, memory_id
-- name: known
SELECT body FROM entry WHERE memory_id IN (SELECT value FROM json_each(:ids)) ORDER BY memory_id
-- name: queries
SELECT body FROM asked WHERE agent = :agent AND env = :env ORDER BY at DESC, query_id DESC LIMIT :limit
-- name: cursor
SELECT value FROM position WHERE name = 'records'
-- name: set_cursor
INSERT INTO position (name, value) VALUES ('records', :value)
ON CONFLICT (name) DO UPDATE SET value = excluded.value
-- name: all_entries
SELECT body FROM entry
-- name: raw_entries
SELECT body FROM entry WHERE derived = 0
-- name: other_sessions
SELECT session_id FROM used UNION SELECT session_id FROM asked
-- name: forget_sought
DELETE FROM sought WHERE rowid IN (
    SELECT position FROM entry WHERE memory_id IN (SELECT value FROM json_each(:ids))
)
-- name: forget_entries
DELETE FROM entry WHERE memory_id IN (SELECT value FROM json_each(:ids))
-- name: forget_used
DELETE FROM used WHERE session_id IN (SELECT value FROM json_each(:sessions))
    OR memory_id IN (SELECT value FROM json_each(:ids))
-- name: forget_asked
DELETE FROM asked WHERE session_id IN (SELECT value FROM json_each(:sessions))
-- name: optimize
INSERT INTO sought (sought) VALUES ('optimize')
