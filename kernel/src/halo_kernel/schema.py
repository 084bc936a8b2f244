"""The tables of a workspace's database and of the home's registry."""

from __future__ import annotations

from .contracts import Migration

WORKSPACE = (
    Migration(
        version=1,
        sql="""
CREATE TABLE meta(name TEXT PRIMARY KEY, value TEXT NOT NULL);
CREATE TABLE sessions(
    id TEXT PRIMARY KEY,
    root TEXT NOT NULL,
    parent TEXT,
    journal TEXT NOT NULL,
    head INTEGER NOT NULL DEFAULT 0,
    history_from INTEGER NOT NULL DEFAULT 1,
    agent TEXT NOT NULL,
    access TEXT NOT NULL,
    principal TEXT NOT NULL,
    principal_kind TEXT NOT NULL,
    origin TEXT NOT NULL,
    title TEXT NOT NULL DEFAULT '',
    model TEXT NOT NULL DEFAULT '',
    directory TEXT NOT NULL DEFAULT '',
    crashes INTEGER NOT NULL DEFAULT 0,
    parked INTEGER NOT NULL DEFAULT 0,
    created_at INTEGER NOT NULL,
    updated_at INTEGER NOT NULL,
    stopped_at INTEGER,
    archived_at INTEGER,
    deleted_at INTEGER
);
CREATE INDEX sessions_by_update ON sessions(principal, principal_kind, updated_at) WHERE parent IS NULL;
CREATE INDEX sessions_by_root ON sessions(root);
CREATE TABLE events(
    session TEXT NOT NULL,
    seq INTEGER NOT NULL,
    at INTEGER NOT NULL,
    kind TEXT NOT NULL,
    turn TEXT NOT NULL,
    body TEXT NOT NULL,
    PRIMARY KEY(session, seq)
);
CREATE TABLE partials(
    session TEXT PRIMARY KEY,
    turn TEXT NOT NULL,
    reply TEXT NOT NULL,
    text TEXT NOT NULL
);
CREATE TABLE inbox(
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    session TEXT NOT NULL,
    key TEXT NOT NULL,
    at INTEGER NOT NULL,
    head INTEGER NOT NULL,
    mode TEXT NOT NULL,
    access TEXT NOT NULL,
    principal TEXT NOT NULL,
    principal_kind TEXT NOT NULL,
    text TEXT NOT NULL,
    route TEXT NOT NULL,
    cause TEXT NOT NULL,
    state TEXT NOT NULL DEFAULT 'waiting',
    turn TEXT,
    UNIQUE(principal, principal_kind, key)
);
CREATE INDEX inbox_waiting ON inbox(session, id) WHERE state = 'waiting';
CREATE TABLE runs(
    session TEXT PRIMARY KEY,
    root TEXT NOT NULL,
    turn TEXT NOT NULL,
    boot TEXT NOT NULL,
    started_at INTEGER NOT NULL,
    landed INTEGER NOT NULL DEFAULT 0
);
""",
    ),
    Migration(
        version=2,
        min_reader=2,
        sql="""
ALTER TABLE sessions ADD COLUMN reply_to TEXT NOT NULL DEFAULT '';
ALTER TABLE sessions ADD COLUMN marks TEXT NOT NULL DEFAULT '';
ALTER TABLE inbox ADD COLUMN owed INTEGER NOT NULL DEFAULT 0;
CREATE INDEX inbox_owed ON inbox(session) WHERE owed = 1;
ALTER TABLE runs ADD COLUMN waiting INTEGER NOT NULL DEFAULT 0;
CREATE TABLE plugin_state(
    session TEXT NOT NULL,
    plugin TEXT NOT NULL,
    value TEXT NOT NULL,
    PRIMARY KEY(session, plugin)
);
CREATE TABLE snapshots(
    session TEXT NOT NULL,
    fold TEXT NOT NULL,
    version INTEGER NOT NULL,
    seq INTEGER NOT NULL,
    state TEXT NOT NULL,
    PRIMARY KEY(session, fold)
);
CREATE TABLE questions(
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    session TEXT NOT NULL,
    turn TEXT NOT NULL,
    asker TEXT NOT NULL,
    call TEXT NOT NULL,
    tool TEXT NOT NULL,
    arguments TEXT NOT NULL,
    text TEXT NOT NULL,
    options TEXT NOT NULL,
    access TEXT NOT NULL,
    state TEXT NOT NULL DEFAULT 'pending',
    asked_at INTEGER NOT NULL,
    expires_at INTEGER NOT NULL,
    answer TEXT NOT NULL DEFAULT '',
    answered_by TEXT NOT NULL DEFAULT ''
);
CREATE INDEX questions_pending ON questions(session) WHERE state = 'pending';
CREATE TABLE outbox(
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    key TEXT NOT NULL UNIQUE,
    dispatcher TEXT NOT NULL,
    target TEXT NOT NULL,
    debt TEXT NOT NULL,
    reason TEXT NOT NULL,
    session TEXT NOT NULL,
    at INTEGER NOT NULL,
    text TEXT NOT NULL
);
CREATE INDEX outbox_by_session ON outbox(session, id);
CREATE TABLE parts(
    delivery INTEGER NOT NULL,
    number INTEGER NOT NULL,
    text TEXT NOT NULL,
    state TEXT NOT NULL DEFAULT 'pending',
    attempt INTEGER NOT NULL DEFAULT 0,
    epoch INTEGER NOT NULL DEFAULT 0,
    not_before INTEGER NOT NULL DEFAULT 0,
    sent_id TEXT NOT NULL DEFAULT '',
    error TEXT NOT NULL DEFAULT '',
    PRIMARY KEY(delivery, number)
);
CREATE INDEX parts_unsettled ON parts(delivery) WHERE state IN ('pending', 'sending');
CREATE TABLE chats(chat TEXT PRIMARY KEY, session TEXT NOT NULL);
""",
    ),
)

HOME = (
    Migration(
        version=1,
        sql="""
CREATE TABLE workspaces(
    id TEXT PRIMARY KEY,
    path TEXT NOT NULL UNIQUE,
    used_at INTEGER NOT NULL
);
CREATE TABLE busy(
    workspace TEXT NOT NULL,
    boot TEXT NOT NULL,
    pid INTEGER NOT NULL,
    PRIMARY KEY(workspace, boot)
);
""",
    ),
)
