-- What tools changed, so that it can be undone. Old contents lie in files named by their digest.
CREATE TABLE change (
    id           INTEGER PRIMARY KEY AUTOINCREMENT,
    kind         TEXT    NOT NULL CHECK (kind IN ('file', 'git')),
    at           INTEGER NOT NULL,
    tool         TEXT    NOT NULL,
    path         TEXT    NOT NULL,
    conversation TEXT,
    turn_id      TEXT    NOT NULL,
    -- Absent when there was no file before.
    before       TEXT,
    before_bytes INTEGER NOT NULL,
    after        TEXT,
    detail       TEXT    NOT NULL,
    undone_at    INTEGER
) STRICT;

CREATE INDEX change_by_age ON change (at);
CREATE INDEX change_by_content ON change (before) WHERE before IS NOT NULL;
