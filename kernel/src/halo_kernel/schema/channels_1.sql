CREATE TABLE accounts(
    type TEXT NOT NULL,
    id TEXT NOT NULL,
    workspace TEXT NOT NULL,
    label TEXT NOT NULL,
    enabled INTEGER NOT NULL,
    access TEXT NOT NULL,
    language TEXT NOT NULL,
    allowed TEXT NOT NULL,
    config TEXT NOT NULL,
    token TEXT UNIQUE,
    updated_at INTEGER NOT NULL,
    PRIMARY KEY(type, id)
);
