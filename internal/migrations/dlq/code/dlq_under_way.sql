create or replace function postrider.dlq_under_way(p_entries uuid[]) returns setof uuid
language sql stable security definer set search_path = pg_catalog, pg_temp
set enable_seqscan = off set enable_hashjoin = off set enable_mergejoin = off as $$
    select w.id
    from unnest(p_entries) as w(id)
    cross join lateral (
        select r.outcome, r.event_id, r.episode, r.source from postrider.dlq_redrive r
        where r.dlq_entry_uuid = w.id order by r.generation desc limit 1) r
    where r.outcome is null
       or r.outcome = 'came_back'
          and not exists (select from postrider.dlq_letter b where b.letter_id = case r.source when 'main' then '' else r.source || '/' end || 'event:' || r.event_id || ':' || (r.episode + 1))
$$;
comment on function postrider.dlq_under_way(uuid[]) is
'Returns the investigations that have a redrive on its way: its event has not ended, or was given up again and that dead letter has not arrived.';
revoke all on function postrider.dlq_under_way(uuid[]) from public;
