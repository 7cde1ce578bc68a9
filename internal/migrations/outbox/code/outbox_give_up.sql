create or replace function postrider.outbox_give_up(hold bigint)
returns table (scope text, topic text, cause text, events bigint)
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp as $$
#variable_conflict use_column
declare
    h postrider.outbox_hold;
begin
    select * into h from postrider.outbox_hold o where o.hold_id = hold for update;
    if not found then
        return;
    end if;
    if h.scope not in ('failure', 'topic') then
        raise exception using errcode = '55000', message = format('postrider: the events behind hold %s cannot be given up at once', hold),
            detail = format('it holds a %s; only circuit breakers and whole topics are given up', h.scope),
            hint = 'Skip single events, or release the hold.';
    end if;
    perform postrider.access_owe('{outbox.give_up}', 'hold', array[hold::text]);
    update postrider.outbox_hold o set asked = 'give_up', next_probe_at = clock_timestamp() where o.hold_id = hold;
    return query select h.scope, h.topic, h.cause, (select count(*) from postrider.outbox_exception x where x.hold_id = hold);
end $$;
comment on function postrider.outbox_give_up(bigint) is
'Gives up all that a circuit breaker keeps, or that waits for a topic: each becomes a dead letter. Returns what the hold was and how many events wait behind it; nothing when there is none.';
revoke all on function postrider.outbox_give_up(bigint) from public;
