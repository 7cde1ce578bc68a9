create or replace function postrider.outbox_redrive(event bigint) returns void
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp set lock_timeout = '1s'
set enable_seqscan = off set enable_bitmapscan = off as $$
declare
    x       postrider.outbox_exception;
    h       postrider.outbox_hold;
    halting bigint;
    v_state text;
    why     text;
begin
    select * into x from postrider.outbox_exception o where o.id = event for update;
    if not found then
        select v.state into v_state from postrider.v_outbox_event v where v.id = event;
        if found then
            raise exception using errcode = '55000', message = format('postrider: event %s cannot be redriven', event),
                detail = format('it is %s, only a dead-lettered one can be redriven', v_state);
        end if;
        raise exception using errcode = 'P0002', message = format('postrider: there is no event %s', coalesce(event::text, 'null')),
            hint = 'Events are named by outbox_event.id.';
    end if;
    select * into h from postrider.outbox_hold o
    where o.topic = x.topic and o.scope = 'key' and coalesce(sha256(o.key), ''::bytea) = sha256(x.key)
      and coalesce(o.partition, -1) = -1 and coalesce(o.partitions, -1) = -1 and coalesce(o.code, '') = '' for update;
    select o.id into halting from postrider.outbox_exception o
    where o.event_id = h.event_id and o.state in ('exhausted', 'dead_lettered') order by o.id desc limit 1;
    if x.state = 'exhausted' then
        why := 'its dead letter is on its way; redrive it when that has arrived';
    elsif x.state <> 'dead_lettered' then
        why := format('it is %s, only a dead-lettered one can be redriven', x.state);
    elsif h.cause is distinct from 'halted' or h.draining or h.asked is not null then
        why := 'it does not halt its key, so later events of the key may have gone; send its content as a new event instead';
    elsif halting is distinct from event then
        why := format('its key is halted by event %s, which alone can be redriven; send the content of this one as a new event instead',
            coalesce(halting, 0));
    end if;
    if why is not null then
        raise exception using errcode = '55000', message = format('postrider: event %s cannot be redriven', event), detail = why;
    end if;
    perform postrider.access_owe('{outbox.redrive, dlq.requeue}', 'event', array[event::text]);
    -- The hold goes on until the event is acknowledged.
    update postrider.outbox_hold o set cause = 'redrive', next_probe_at = clock_timestamp() where o.hold_id = h.hold_id;
    update postrider.outbox_exception o
    set state = 'parked', hold_id = h.hold_id, attempts = 0, sent_at = null, next_attempt_at = null, closed_at = null, updated_at = now()
    where o.id = event;
end $$;
comment on function postrider.outbox_redrive(bigint) is
'Puts a dead-lettered event that halts its key back in its place: it is sent next, and the key goes on when it is acknowledged.';
revoke all on function postrider.outbox_redrive(bigint) from public;
