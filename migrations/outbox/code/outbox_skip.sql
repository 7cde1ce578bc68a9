create or replace function postrider.outbox_skip(event bigint, reason text) returns void
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
    perform postrider.outbox_tell_tasks(array[event]);
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
revoke all on function postrider.outbox_skip(bigint, text) from public;
