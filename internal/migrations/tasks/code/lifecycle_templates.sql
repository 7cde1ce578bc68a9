-- Without settings of its own, so that it is inlined, and a query that has enough rows looks for no more of them. Who
-- calls it switches off the plans that tempt the planner.
create or replace function postrider.lifecycle_templates(p_after uuid default null, p_until uuid default null)
returns table (named_task_uuid uuid, template jsonb, namespace jsonb)
language sql stable as $$
    with recursive template as (
        select (select t.named_task_uuid from postrider.tasker_tasks t
                where t.live and t.stale_flagged_at is null
                  and t.named_task_uuid operator(pg_catalog.>) coalesce(p_after, '00000000-0000-0000-0000-000000000000')
                  and t.named_task_uuid operator(pg_catalog.<=) coalesce(p_until, 'ffffffff-ffff-ffff-ffff-ffffffffffff')
                order by t.named_task_uuid, coalesce(t.resumed_at, t.created_at) limit 1) as named_task_uuid
        union all
        select (select t.named_task_uuid from postrider.tasker_tasks t
                where t.live and t.stale_flagged_at is null and t.named_task_uuid operator(pg_catalog.>) p.named_task_uuid
                  and t.named_task_uuid operator(pg_catalog.<=) coalesce(p_until, 'ffffffff-ffff-ffff-ffff-ffffffffffff')
                order by t.named_task_uuid, coalesce(t.resumed_at, t.created_at) limit 1)
        from template p where p.named_task_uuid is not null
    )
    select n.named_task_uuid, n.configuration operator(pg_catalog.->) 'lifecycle', ns.lifecycle
    from template p
    join postrider.tasker_named_tasks n on n.named_task_uuid operator(pg_catalog.=) p.named_task_uuid
    join postrider.tasker_task_namespaces ns on ns.task_namespace_uuid operator(pg_catalog.=) n.task_namespace_uuid
    offset 0
$$;
comment on function postrider.lifecycle_templates(uuid, uuid) is
'Internal. The templates that have live tasks which are not flagged, with their lifecycle and that of their namespace; only templates behind p_after and up to p_until, if these are not null. Each is found by one step down an index, however many tasks there are.';
revoke all on function postrider.lifecycle_templates(uuid, uuid) from public;
