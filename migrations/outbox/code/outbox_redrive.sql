create or replace function postrider.outbox_redrive(event bigint) returns void
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
revoke all on function postrider.outbox_redrive(bigint) from public;
