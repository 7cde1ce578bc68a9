create or replace function postrider.outbox_standing(p_ids bigint[], p_event_ids uuid[])
returns table (place bigint, state text, episode integer)
language sql stable security definer set search_path = pg_catalog, pg_temp
set enable_seqscan = off set enable_bitmapscan = off set enable_hashjoin = off set enable_mergejoin = off as $$
    select w.place, e.state::text, e.episode
    from unnest(p_ids, p_event_ids) with ordinality w(id, event_id, place)
    join postrider.outbox_event e on e.id = any (array[w.id]) and e.event_id = w.event_id
$$;
comment on function postrider.outbox_standing(bigint[], uuid[]) is
'How events stand that were given up before: place in the arrays, state, and how often they were given up. Events that are gone are left out: those that had been published, or that no investigation needs.';
revoke all on function postrider.outbox_standing(bigint[], uuid[]) from public;
