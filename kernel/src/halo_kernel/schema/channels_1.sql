CREATE TABLE accounts(
    type TEXT NOT NULL,
    id TEXT NOT NULL,
    account TEXT NOT NULL,
    token TEXT UNIQUE,
    PRIMARY KEY(type, id)
);
