create or replace function postrider.outbox_obeyed(p_commands uuid[], p_kinds text[], p_ids bigint[], p_event_ids uuid[], p_episodes integer[])
returns table (place bigint, obeyed boolean)
language sql stable security definer set search_path = pg_catalog, pg_temp
set enable_seqscan = off set enable_bitmapscan = off set enable_hashjoin = off set enable_mergejoin = off set jit = off as $$
    select w.place,
           case w.kind
                -- An event that is closed leaves nothing to do, by this command or another.
                when 'close' then x.id is null or x.closed_at is not null or x.episode <> w.episode
                else coalesce(x.obeyed ? w.command::text, false)
                     or postrider.access_find_audit(case w.kind when 'release' then 'outbox.release' else 'dlq.requeue' end, 'event', w.id::text, jsonb_build_object('command', w.command)) is not null end
    from unnest(p_commands, p_kinds, p_ids, p_event_ids, p_episodes) with ordinality w(command, kind, id, event_id, episode, place)
    left join lateral (
        select o.id, o.episode, o.obeyed, o.closed_at from postrider.outbox_exception o where o.id = w.id and o.event_id = w.event_id limit 1) x on true
$$;
comment on function postrider.outbox_obeyed(uuid[], text[], bigint[], uuid[], integer[]) is
'Whether this outbox knows of commands that it answered: place in the arrays, and whether what was commanded is done. It is not where the database was set back to a time before.';
revoke all on function postrider.outbox_obeyed(uuid[], text[], bigint[], uuid[], integer[]) from public;
