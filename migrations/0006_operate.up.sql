-- What people may do to what waits, by functions alone, so that nobody who operates needs the right to change
-- events, holds or shards in any other way.

-- Columns, and not a row of the table: that would make the type of the table one that its functions need, and
-- keep the table that was there before outbox_event was partitioned from being dropped.
create function postrider.outbox_operate(event bigint, out shard smallint, out state postrider.outbox_state, out event_id uuid,
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

-- There is no audit log yet: 0017 puts in what asks for it.
create function postrider.access_owe(p_service boolean default false) returns void
language plpgsql volatile set search_path = pg_catalog, pg_temp as 'begin end';
comment on function postrider.access_owe(boolean) is
'Demands of the transaction, where it is one of somebody with the rights of an operator, that it has written to the audit log when it is committed. The functions by which people change things call it; with p_service those that services call as well, of whom it demands nothing.';
revoke all on function postrider.access_owe(boolean) from public;

create function postrider.outbox_release(hold bigint)
returns table (scope text, topic text, key bytea, cause text, draining boolean)
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp as $$
#variable_conflict use_column
begin
    return query
    update postrider.outbox_hold h
    set next_probe_at = clock_timestamp(), draining = h.draining or h.cause in ('halted', 'redrive', 'storm')
    where h.hold_id = hold
    returning h.scope, h.topic, h.key, h.cause, h.draining;
    if found then
        perform postrider.access_owe();
    end if;
end $$;
comment on function postrider.outbox_release(bigint) is
'Ends the wait of a hold: a halted key, or a storm, lets go of all that waits, in order; any other hold lets one event through, to see whether the cause is gone. Returns what the hold was, nothing when there is none.';

create function postrider.outbox_release_keys(p_events bigint[]) returns bigint
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp
set enable_seqscan = off set enable_hashjoin = off set enable_mergejoin = off set jit = off as $$
declare
    released bigint;
begin
    -- Locked in the order in which the relay takes them.
    with halted as materialized (
        select h.hold_id
        from unnest(p_events) as w(id)
        join postrider.outbox_event e on e.id = any (array[w.id])
        join postrider.outbox_hold h on h.topic = e.topic and h.scope = 'key' and coalesce(sha256(h.key), ''::bytea) = sha256(e.key)
            and coalesce(h.partition, -1) = -1 and coalesce(h.partitions, -1) = -1
        where h.event_id = e.event_id and h.cause = 'halted' and not h.draining
        order by h.topic, h.scope, h.key
        for update of h
    )
    update postrider.outbox_hold h set next_probe_at = clock_timestamp(), draining = true
    from halted t where h.hold_id = t.hold_id;
    get diagnostics released = row_count;
    if released > 0 then
        perform postrider.access_owe();
    end if;
    return released;
end $$;
comment on function postrider.outbox_release_keys(bigint[]) is
'Lets the keys go that these events halt: what waits behind them comes back, in order, and the events stay dead-lettered. Returns how many keys that are.';

-- There are no tasks yet: 0016 puts in what moves them.
create function postrider.task_events_dead_lettered(p_event_ids bigint[]) returns integer
language sql volatile set search_path = pg_catalog, pg_temp as 'select 0';
comment on function postrider.task_events_dead_lettered(bigint[]) is
'Moves the tasks of outbox events that were just given up, in the transaction that gave them up; ids are outbox_event.id, and those of other events are passed over. A task that cannot be moved now is noted in tasker_undelivered_events. It waits for no task, and a task keeps no event from being given up. Returns how many tasks were moved.';
revoke all on function postrider.task_events_dead_lettered(bigint[]) from public;

create function postrider.outbox_skip(event bigint, reason text) returns void
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp set lock_timeout = '1s'
set enable_seqscan = off set enable_bitmapscan = off as $$
declare
    e record;
begin
    if coalesce(reason, '') = '' then
        raise exception using errcode = '22023', message = 'postrider: reason is empty, it goes into the dead letter';
    end if;
    select * into e from postrider.outbox_operate(event);
    if e.state not in ('pending', 'parked', 'scheduled') then
        raise exception using errcode = '55000', message = format('postrider: event %s cannot be skipped', event),
            detail = format('it is %s, only one that waits can be skipped', e.state);
    end if;
    perform postrider.access_owe();
    update postrider.outbox_event o
    set state = 'exhausted', hold_id = null, episode = o.episode + 1, next_attempt_at = null, updated_at = now(),
        first_error_at = coalesce(o.first_error_at, statement_timestamp()), last_error_at = statement_timestamp(),
        last_error_class = 'permanent', last_error_code = 'SKIPPED', last_error = 'skipped by hand: ' || reason
    where o.id = event;
    perform postrider.task_events_dead_lettered(array[event]);
    -- The next one of the key need not wait for the retry of this one; where the key waited for this one alone,
    -- all of it goes on.
    if e.about and e.cause = 'redrive' then
        perform postrider.outbox_release(e.hold_id);
    elsif e.about then
        update postrider.outbox_hold h set next_probe_at = clock_timestamp() where h.hold_id = e.hold_id and h.next_probe_at <> 'infinity';
    end if;
end $$;
comment on function postrider.outbox_skip(bigint, text) is
'Gives up an event that waits: it becomes a dead letter with the reason, and the later ones of its key go on. Waits a second at most for whoever has the event''s shard in work.';

create function postrider.outbox_redrive(event bigint) returns void
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp set lock_timeout = '1s'
set enable_seqscan = off set enable_bitmapscan = off as $$
declare
    e       record;
    halting bigint;
    why     text;
begin
    select * into e from postrider.outbox_operate(event);
    -- As it is now: somebody may just have released it.
    select h.cause, h.draining,
           (select o.id from postrider.outbox_event o
            where o.event_id = h.event_id and o.state in ('exhausted', 'dead_lettered') order by o.id desc limit 1)
    into e.cause, e.draining, halting
    from postrider.outbox_hold h where h.hold_id = e.hold_id for update of h;
    if e.state = 'exhausted' then
        why := 'its dead letter is on its way; redrive it when that has arrived';
    elsif e.state <> 'dead_lettered' then
        why := format('it is %s, only a dead-lettered one can be put back', e.state);
    elsif e.cause is distinct from 'halted' or e.draining then
        why := 'it does not halt its key, so later events of the key may have gone; send its content as a new event instead';
    elsif halting is distinct from event then
        why := format('its key is halted by event %s, which alone can be put back; send the content of this one as a new event instead', coalesce(halting, 0));
    end if;
    if why is not null then
        raise exception using errcode = '55000', message = format('postrider: event %s cannot be put back', event), detail = why;
    end if;
    perform postrider.access_owe();
    update postrider.outbox_event o
    set state = 'pending', attempts = 0, sent_at = null, next_attempt_at = null, updated_at = now() where o.id = event;
    update postrider.outbox_shard s set low_water = least(s.low_water, event - 1), epoch = -abs(s.epoch)
    where s.shard = e.shard and (s.low_water >= event or s.epoch > 0);
    -- The hold goes on until the event is acknowledged, and lets it pass.
    update postrider.outbox_hold h set cause = 'redrive', next_probe_at = 'infinity', draining = false where h.hold_id = e.hold_id;
    insert into postrider.outbox_hold_shard as hs (hold_id, shard, returned_through) values (e.hold_id, e.shard, event)
    on conflict (hold_id, shard) do update set returned_through = excluded.returned_through;
end $$;
comment on function postrider.outbox_redrive(bigint) is
'Puts a dead-lettered event that halts its key back in its place: it is sent next, and the key goes on when it is acknowledged. Waits a second at most for whoever has the event''s shard in work.';

revoke all on function postrider.outbox_operate(bigint), postrider.outbox_release(bigint), postrider.outbox_release_keys(bigint[]),
    postrider.outbox_skip(bigint, text), postrider.outbox_redrive(bigint) from public;
