-- Of each template that is in the archive, found by one step down an index, and each final state that is asked for the
-- newest, which stand together in that index, merged: what it costs does not grow with the tasks that are not asked for.
with recursive template as (
    select f.namespace_name, f.task_name
    from (select a.namespace_name, a.task_name from postrider.tasker_tasks_archive a
          where a.namespace_name >= coalesce($1::text, '')
          order by a.namespace_name, a.task_name limit 1) f
    where f.namespace_name = coalesce($1, f.namespace_name)
    union all
    select n.namespace_name, n.task_name
    from template t
    cross join lateral (
        select a.namespace_name, a.task_name from postrider.tasker_tasks_archive a
        where (a.namespace_name, a.task_name) > (t.namespace_name, t.task_name)
        order by a.namespace_name, a.task_name limit 1) n
    where n.namespace_name = coalesce($1, n.namespace_name)
), asked as materialized (
    select t.namespace_name, t.task_name, f.final_state
    from template t
    cross join unnest(array['complete', 'error', 'cancelled', 'dlq_resolved']) f(final_state)
    where t.task_name = coalesce($2::text, t.task_name) and f.final_state = coalesce($3::text, f.final_state)
), newest as materialized (
    select p.task_uuid
    from asked s
    cross join lateral (
        select a.archived_at, a.task_uuid from postrider.tasker_tasks_archive a
        where a.namespace_name = s.namespace_name and a.task_name = s.task_name and a.final_state = s.final_state
          and (a.archived_at, a.task_uuid) < (coalesce($4::timestamptz, 'infinity'), coalesce($5::uuid, 'ffffffff-ffff-ffff-ffff-ffffffffffff'))
        order by a.archived_at desc, a.task_uuid desc limit $6::bigint + $7::bigint) p
    order by p.archived_at desc, p.task_uuid desc
    limit $6 offset $7
)
select task_uuid, named_task_uuid, namespace_name, task_name, task_version, state,
       case when completed_at is null then 'failed' else 'terminal' end as kind, live, state_entered_at, sort_key, priority, retry_count,
       context, metadata, idempotency_key, error_reason, stale_flagged_at, stay_from, resumed_at, dead_letters, created_at, updated_at, completed_at, final_state, archived_at
from newest
join postrider.tasker_tasks_archive using (task_uuid)
order by archived_at desc, task_uuid desc
