-- The inbox of a service: which messages its consumer groups have handled. Running this again changes nothing.

create table if not exists /*schema*/inbox_message (
    -- "C": compares bytes, and does not break when the machine's sort order changes.
    consumer_group text collate "C" not null check (octet_length(consumer_group) between 1 and 200),
    message_id     text collate "C" not null check (octet_length(message_id) between 1 and 200),
    handled_at     timestamptz not null default clock_timestamp(),
    -- Both columns, so that the table can be partitioned by list of the one or by hash of the other.
    constraint inbox_message_pkey primary key (consumer_group, message_id)
) with (autovacuum_vacuum_scale_factor = 0.0, autovacuum_vacuum_threshold = 20000,
        autovacuum_analyze_scale_factor = 0.0, autovacuum_analyze_threshold = 100000);
comment on table /*schema*/inbox_message is
'Messages from Kafka that were handled, one row per consumer group and message, inserted in the transaction that handled it. A message that has a row is a copy.';
comment on column /*schema*/inbox_message.consumer_group is
'The Kafka consumer group that handled it; sha256:HEX of a name that is longer than 200 bytes or no text.';
comment on column /*schema*/inbox_message.message_id is
'What tells the message from others, and stays the same when it is sent again: event:EVENT or record:TOPIC/PARTITION/OFFSET@TIMESTAMP, the timestamp in milliseconds and left out with its @ where the record has none; sha256:HEX of one that is longer than 200 bytes or no text.';
comment on column /*schema*/inbox_message.handled_at is
'When it was handled. Rows may go when no copy can come any more: see the retention of the inbox.';
comment on constraint inbox_message_pkey on /*schema*/inbox_message is
'Makes a copy that comes while the first is being handled wait for that one''s transaction.';
create index if not exists inbox_message_handled_at on /*schema*/inbox_message (handled_at);
comment on index /*schema*/inbox_message_handled_at is 'The oldest rows, for the purge.';
