CREATE INDEX sessions_by_parent ON sessions(parent) WHERE parent IS NOT NULL;
