create or replace function postrider.outbox_standing(p_ids bigint[], p_event_ids uuid[])
returns table (place bigint, state text, episode integer)
language sql stable security definer set search_path = pg_catalog, pg_temp
set enable_seqscan = off set enable_bitmapscan = off set enable_hashjoin = off set enable_mergejoin = off set jit = off as $$
    with progress as materialized (select p.position, p.gaps from postrider.outbox_progress p)
    select w.place,
           case when x.id is not null then x.state::text
                when e.id > (select p.position from progress p) or e.id <@ (select p.gaps from progress p) then 'pending'
                else 'published' end,
           coalesce(x.episode, 0)
    from unnest(p_ids, p_event_ids) with ordinality w(id, event_id, place)
    left join lateral (
        select o.id, o.state, o.episode from postrider.outbox_exception o where o.id = w.id and o.event_id = w.event_id limit 1) x on true
    left join lateral (
        select o.id from postrider.outbox_event o where o.id = w.id and o.event_id = w.event_id limit 1) e on true
    where x.id is not null or e.id is not null
$$;
comment on function postrider.outbox_standing(bigint[], uuid[]) is
'How events stand: place in the arrays; pending, published, or the state of the exception; and how often they were given up, which is 0 for a published event. Events that retention removed are left out: published events, and events that were given up and that no investigation needs.';
revoke all on function postrider.outbox_standing(bigint[], uuid[]) from public;
