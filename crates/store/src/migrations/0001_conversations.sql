-- "Ferm": the file is ours. In the same transaction as the first tables, so that a file with
-- tables and without the mark is never ours.
PRAGMA application_id = 0x4665726d;

CREATE TABLE conversation (
    id         INTEGER PRIMARY KEY,
    channel    TEXT    NOT NULL,
    chat_id    TEXT    NOT NULL,
    thread     TEXT    NOT NULL,
    -- Messages of earlier sessions stay stored and are not replayed.
    session    INTEGER NOT NULL DEFAULT 1,
    created_at INTEGER NOT NULL,
    updated_at INTEGER NOT NULL,
    UNIQUE (channel, chat_id, thread)
) STRICT;

CREATE INDEX conversation_by_update ON conversation (updated_at);

CREATE TABLE message (
    -- AUTOINCREMENT: the id of a deleted message never comes back.
    id                    INTEGER PRIMARY KEY AUTOINCREMENT,
    conversation_id       INTEGER NOT NULL REFERENCES conversation (id) ON DELETE CASCADE,
    session               INTEGER NOT NULL,
    role                  TEXT    NOT NULL CHECK (role IN ('user', 'assistant', 'marker')),
    kind                  TEXT    NOT NULL DEFAULT 'message' CHECK (kind IN ('message', 'checkpoint_summary')),
    text                  TEXT    NOT NULL,
    guest                 INTEGER NOT NULL CHECK (guest IN (0, 1)),
    created_at            INTEGER NOT NULL,
    reply_to              INTEGER REFERENCES message (id) ON DELETE CASCADE,
    work_note             TEXT,
    platform_id           TEXT,
    provider              TEXT,
    model                 TEXT,
    prompt_tokens         INTEGER,
    completion_tokens     INTEGER,
    cached_tokens         INTEGER,
    cache_creation_tokens INTEGER,
    CHECK ((role = 'user') = (reply_to IS NULL))
) STRICT;

CREATE INDEX message_by_conversation ON message (conversation_id, session, id);
-- One request has one ending: an answer or a marker.
CREATE UNIQUE INDEX message_by_request ON message (reply_to) WHERE reply_to IS NOT NULL;
CREATE INDEX message_by_use ON message (created_at) WHERE provider IS NOT NULL;

-- The platform's ids of accepted messages, so that a redelivery is not a second request.
CREATE TABLE accepted_id (
    id          INTEGER PRIMARY KEY AUTOINCREMENT,
    channel     TEXT    NOT NULL,
    platform_id TEXT    NOT NULL,
    accepted_at INTEGER NOT NULL,
    message_id  INTEGER NOT NULL REFERENCES message (id) ON DELETE CASCADE,
    UNIQUE (channel, platform_id)
) STRICT;

CREATE INDEX accepted_id_by_age ON accepted_id (channel, id);
CREATE INDEX accepted_id_by_message ON accepted_id (message_id);

-- Numbers that must never repeat, whatever is deleted or restarted.
CREATE TABLE counter (
    name  TEXT    PRIMARY KEY,
    value INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
