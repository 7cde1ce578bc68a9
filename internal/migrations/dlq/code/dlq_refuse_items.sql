create or replace function postrider.dlq_refuse_items(p_operations uuid[], p_entries uuid[], p_reasons text[]) returns void
language sql volatile security definer set search_path = pg_catalog, pg_temp
set enable_seqscan = off set enable_bitmapscan = off set enable_hashjoin = off set enable_mergejoin = off set jit = off as $$
    with given as materialized (
        select * from unnest(p_operations, p_entries, p_reasons) as w(operation, entry, reason)
    -- Operations are locked in the order in which all lock them, and their items after them. Each item is looked up by its index and
    -- changed at its place.
    ), locked as materialized (
        select p.dlq_operation_uuid from (select distinct g.operation from given g) w
        join postrider.dlq_operation p on p.dlq_operation_uuid = w.operation
        order by p.dlq_operation_uuid for update of p
    ), items as (
        update postrider.dlq_operation_item i set state = case when w.reason in ('refused', 'source_forgotten') then 'failed' else 'skipped' end, reason = w.reason, outcome = null
        from given w join locked l on l.dlq_operation_uuid = w.operation
        cross join lateral (
            select x.ctid as place from postrider.dlq_operation_item x where x.dlq_operation_uuid = w.operation and x.dlq_entry_uuid = w.entry limit 1) x
        where i.ctid = x.place and i.state = 'done'
        returning i.dlq_operation_uuid, i.state
    ), counted as (
        select i.dlq_operation_uuid, count(*) filter (where i.state = 'skipped') as skipped, count(*) filter (where i.state = 'failed') as failed
        from items i group by i.dlq_operation_uuid
    )
    update postrider.dlq_operation p
    set done = p.done - c.skipped - c.failed, skipped = p.skipped + c.skipped, failed = p.failed + c.failed, updated_at = now()
    from counted c where p.dlq_operation_uuid = c.dlq_operation_uuid
$$;
comment on function postrider.dlq_refuse_items(uuid[], uuid[], text[]) is
'Internal. Items of operations that were sent to their sources, by operation and investigation, and that are no redrives after all: their sources refused them, forgot them (undone), or are forgotten themselves (source_forgotten). They count as skipped with the reason; what the outbox does not take, and what is unknown of a forgotten source, counts as failed.';
revoke all on function postrider.dlq_refuse_items(uuid[], uuid[], text[]) from public;
