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

-- What else a change needs of the old contents.
CREATE TABLE change_object (
    change_id INTEGER NOT NULL REFERENCES change (id) ON DELETE CASCADE,
    digest    TEXT    NOT NULL,
    PRIMARY KEY (change_id, digest)
) STRICT, WITHOUT ROWID;

CREATE INDEX change_object_by_content ON change_object (digest);
CREATE INDEX change_by_age ON change (at);
CREATE INDEX change_by_content ON change (before) WHERE before IS NOT NULL;
