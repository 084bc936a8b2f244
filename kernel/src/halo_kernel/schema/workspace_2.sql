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
