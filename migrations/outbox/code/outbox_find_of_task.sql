create or replace function postrider.outbox_find_of_task(p_task_uuid uuid, p_before bigint, p_limit integer) returns setof bigint
language sql stable set search_path = pg_catalog, pg_temp
set enable_seqscan = off set enable_indexscan = off set enable_indexonlyscan = off set enable_bitmapscan = on set jit = off as $$
    select f.id from (select e.id from postrider.outbox_event e where e.task_uuid = p_task_uuid offset 0) f
    where f.id < p_before order by f.id desc limit p_limit
$$;
comment on function postrider.outbox_find_of_task(uuid, bigint, integer) is
'The newest events before an id that the log has of a task: the index outbox_event_find says in which pages to look.';
revoke all on function postrider.outbox_find_of_task(uuid, bigint, integer) from public;
