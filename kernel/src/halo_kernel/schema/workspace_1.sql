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
