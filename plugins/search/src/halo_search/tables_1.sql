CREATE TABLE owners(
    number INTEGER PRIMARY KEY,
    principal TEXT NOT NULL,
    kind TEXT NOT NULL,
    UNIQUE(principal, kind)
);
CREATE TABLE sessions(
    number INTEGER PRIMARY KEY,
    id TEXT NOT NULL UNIQUE,
    owner INTEGER NOT NULL,
    seq INTEGER NOT NULL DEFAULT 0,
    title TEXT NOT NULL DEFAULT '',
    archived INTEGER NOT NULL DEFAULT 0
);
CREATE TABLE entries(
    number INTEGER PRIMARY KEY,
    session INTEGER NOT NULL,
    seq INTEGER NOT NULL,
    at INTEGER NOT NULL,
    kind TEXT NOT NULL,
    UNIQUE(session, seq)
);
-- Of each entry its tokens, `<owner>_<token>`: what one owner's query asks for, no other owner's text has.
CREATE VIRTUAL TABLE words USING fts5(
    tokens,
    content = '',
    contentless_delete = 1,
    tokenize = "ascii tokenchars '_'"
);
CREATE TABLE progress(name TEXT PRIMARY KEY, value INTEGER NOT NULL);
