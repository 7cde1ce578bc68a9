-- Columns, and not a row of the table: that would make the type of the table one that its functions need, and
-- keep the table that was there before outbox_event was partitioned from being dropped.
create or replace function postrider.outbox_operate(event bigint, out shard smallint, out state postrider.outbox_state, out event_id uuid,
                                         out hold_id bigint, out cause text, out draining boolean, out about boolean)
language plpgsql volatile set search_path = pg_catalog, pg_temp as $$
#variable_conflict use_column
begin
    if current_setting('transaction_isolation') <> 'read committed' then
        raise exception using errcode = '25000', message = 'postrider: this needs the isolation level read committed',
            hint = 'What was committed before the lock of the event''s shard was given must be seen.';
    end if;
    perform from postrider.outbox_shard s
    where s.shard = (select e.shard from postrider.outbox_event e where e.id = event) for update;
    -- What the last owner of the shard made of it, and the hold on its key, by the whole of its unique index.
    select e.shard, e.state, e.event_id, h.hold_id, h.cause, h.draining, h.event_id = e.event_id
    into shard, state, event_id, hold_id, cause, draining, about
    from postrider.outbox_event e
    left join postrider.outbox_hold h on h.topic = e.topic and h.scope = 'key' and coalesce(sha256(h.key), ''::bytea) = sha256(e.key)
        and coalesce(h.partition, -1) = -1 and coalesce(h.partitions, -1) = -1
    where e.id = event;
    if not found then
        raise exception using errcode = 'P0002', message = format('postrider: there is no event %s', coalesce(event::text, 'null')),
            hint = 'Events are named by outbox_event.id.';
    end if;
end $$;
comment on function postrider.outbox_operate(bigint) is
'Locks the shard of an event that somebody wants to treat by hand, and returns how the event stands then, with the hold on its key and whether that is about this event.';
revoke all on function postrider.outbox_operate(bigint) from public;
