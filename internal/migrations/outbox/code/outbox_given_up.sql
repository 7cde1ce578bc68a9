create or replace function postrider.outbox_given_up(p_event_ids uuid[]) returns setof uuid
language sql stable set search_path = pg_catalog, pg_temp set jit = off as $$
    select distinct x.event_id
    from unnest(p_event_ids) as w(event_id)
    join postrider.outbox_exception x on x.event_id = w.event_id
    where x.state in ('exhausted', 'dead_lettered')
$$;
comment on function postrider.outbox_given_up(uuid[]) is
'Internal. Returns which events were given up and have not been redriven: they neither wait nor were delivered.';
revoke all on function postrider.outbox_given_up(uuid[]) from public;
