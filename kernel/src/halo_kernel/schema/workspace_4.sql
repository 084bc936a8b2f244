CREATE INDEX inbox_held ON inbox(session) WHERE state = 'held';
