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
