-- name: entry
CREATE TABLE entry (
    position INTEGER PRIMARY KEY,
    memory_id TEXT NOT NULL UNIQUE,
    agent TEXT NOT NULL,
    env TEXT NOT NULL,
    scope TEXT NOT NULL,
    derived INTEGER NOT NULL,
    subject TEXT,
    valid_from INTEGER NOT NULL,
    valid_to INTEGER,
    created_at INTEGER NOT NULL,
    body TEXT NOT NULL
) STRICT
-- name: entry_by_scope
CREATE INDEX entry_by_scope ON entry (scope, derived)
-- name: entry_by_agent
CREATE INDEX entry_by_agent ON entry (agent, env, created_at, memory_id)
-- name: entry_by_subject
CREATE INDEX entry_by_subject ON entry (scope, subject, valid_from, memory_id) WHERE subject IS NOT NULL
-- name: sought
CREATE VIRTUAL TABLE sought USING fts5(
    terms, scope, content='', contentless_delete=1, detail='column', tokenize='ascii'
)
-- name: used
CREATE TABLE used (
    session_id TEXT NOT NULL,
    memory_id TEXT NOT NULL,
    scopes TEXT NOT NULL,
    retrieved INTEGER NOT NULL,
    confirmed INTEGER NOT NULL,
    contradicted INTEGER NOT NULL,
    alone INTEGER NOT NULL,
    last_used INTEGER,
    PRIMARY KEY (session_id, memory_id)
) STRICT, WITHOUT ROWID
-- name: used_by_memory
CREATE INDEX used_by_memory ON used (memory_id)
-- name: asked
CREATE TABLE asked (
    query_id TEXT PRIMARY KEY,
    session_id TEXT NOT NULL,
    agent TEXT NOT NULL,
    env TEXT NOT NULL,
    at INTEGER NOT NULL,
    body TEXT NOT NULL
) STRICT, WITHOUT ROWID
-- name: asked_by_agent
CREATE INDEX asked_by_agent ON asked (agent, env, at, query_id)
-- name: asked_by_session
CREATE INDEX asked_by_session ON asked (session_id)
-- name: position
CREATE TABLE position (
    name TEXT PRIMARY KEY,
    value INTEGER NOT NULL
) STRICT
