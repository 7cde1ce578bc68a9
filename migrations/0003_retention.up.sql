-- Retention: what has been delivered goes after a while, in small batches, by a walk that needs no index
-- of its own. And vacuum settings for the hot tables beside outbox_event.

create table postrider.outbox_purge (
    kind           text primary key check (kind in ('published', 'dead_lettered', 'idempotency_key')),
    position       text,
    round_began_at timestamptz
);
comment on table postrider.outbox_purge is
'How far the purge of each kind of row has walked. Whoever purges holds the row''s lock for one batch, so only one does at a time, and a crash gives it back. Rows that must stay are walked over and looked at again in the next round, a day later.';
comment on column postrider.outbox_purge.kind is 'published: events that their topics acknowledged. dead_lettered: events whose investigation is closed. idempotency_key: keys of outbox_publish.';
comment on column postrider.outbox_purge.position is 'Where the next batch begins: after this id (published) or event id (dead_lettered), or at this block of the table (idempotency_key). Null is the beginning.';
comment on column postrider.outbox_purge.round_began_at is 'When the walk last began at the beginning.';
insert into postrider.outbox_purge (kind) values ('published'), ('dead_lettered'), ('idempotency_key');

create function postrider.dlq_event_closed(event_id uuid, episode integer) returns boolean
language sql stable parallel safe set search_path = pg_catalog, pg_temp as $$
    select exists (select from postrider.dlq_letter l
                   where l.letter_id = 'event:' || dlq_event_closed.event_id || ':' || dlq_event_closed.episode)
       and not exists (select from postrider.dlq_entry e
                       where e.subject_type = 'event' and e.subject_id = dlq_event_closed.event_id::text
                         and e.resolution_status = 'pending')
$$;
comment on function postrider.dlq_event_closed(uuid, integer) is
'Whether nobody needs the outbox row of a dead-lettered event any more: the dead letter of this episode is recorded, and no investigation of the event is pending. False when in doubt. This is how the purge of outbox events asks without knowing the tables of investigations.';

-- Vacuumed by count rather than by share, as outbox_event is. What they cost is what every claim pays.

-- Every claim looks at all 64 rows, which fit in one page; their low-water marks rise twice a second each.
-- Room on the page keeps the new versions there. Giving back a page at the end would lock the table.
alter table postrider.outbox_shard set (fillfactor = 50, vacuum_truncate = off,
    autovacuum_vacuum_scale_factor = 0.0, autovacuum_vacuum_threshold = 1000,
    autovacuum_analyze_scale_factor = 0.0, autovacuum_analyze_threshold = 10000);
-- A row is inserted and deleted with every batch, hundreds a second, and every claim reads what is there.
alter table postrider.outbox_batch set (vacuum_truncate = off,
    autovacuum_vacuum_scale_factor = 0.0, autovacuum_vacuum_threshold = 1000,
    autovacuum_analyze_scale_factor = 0.0, autovacuum_analyze_threshold = 10000);
-- Few rows that change with every probe; a storm of failing keys makes many that are soon gone. The time
-- of the next probe is indexed, so room on the page would save nothing.
alter table postrider.outbox_hold set (vacuum_truncate = off,
    autovacuum_vacuum_scale_factor = 0.0, autovacuum_vacuum_threshold = 1000,
    autovacuum_analyze_scale_factor = 0.0, autovacuum_analyze_threshold = 10000);
-- returned_through moves with every batch that comes back and is not indexed, so room on the page keeps
-- the new versions there, with no new index entries.
alter table postrider.outbox_hold_shard set (fillfactor = 70, vacuum_truncate = off,
    autovacuum_vacuum_scale_factor = 0.0, autovacuum_vacuum_threshold = 1000,
    autovacuum_analyze_scale_factor = 0.0, autovacuum_analyze_threshold = 10000);
-- Inserted once and removed a month later: by share, the first vacuum of a large table would come after
-- days of removing, and its free space with it.
alter table postrider.outbox_idempotency_key set (
    autovacuum_vacuum_scale_factor = 0.0, autovacuum_vacuum_threshold = 100000,
    autovacuum_vacuum_insert_scale_factor = 0.0, autovacuum_vacuum_insert_threshold = 1000000);
