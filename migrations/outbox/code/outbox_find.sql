create or replace function postrider.outbox_find(p_event_id uuid) returns bigint
language sql stable set search_path = pg_catalog, pg_temp
set enable_seqscan = off set enable_indexscan = off set enable_indexonlyscan = off set enable_bitmapscan = on set jit = off as $$
    select max(e.id) from postrider.outbox_event e where e.event_id = p_event_id
$$;
comment on function postrider.outbox_find(uuid) is
'The id of an event that the log has, by its event_id, or null: the index outbox_event_find says in which pages to look.';
revoke all on function postrider.outbox_find(uuid) from public;
