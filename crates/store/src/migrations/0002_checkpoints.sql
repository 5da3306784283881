-- A record of older messages that stands in their place when the conversation is replayed. The
-- messages themselves stay: they are found by search and come back when the record is gone.

-- Of a record: the last message it stands for. A message is compacted when a valid record of its
-- session reaches it; there is no second place that says so, and so none that could disagree.
ALTER TABLE message ADD COLUMN covers_through INTEGER;
-- Of a record: whether it tells of turns that were not a guest's, and so is not shown to one.
ALTER TABLE message ADD COLUMN tells_of_owner INTEGER;
-- Of an ending: the largest prompt of one provider call of the turn, as reported.
ALTER TABLE message ADD COLUMN peak_tokens INTEGER;

CREATE INDEX message_by_record ON message (conversation_id, session, id) WHERE kind = 'checkpoint_summary';
