-- Without settings of its own, so that it is inlined; so every name is written with its schema.
create or replace function postrider.tasks_in_turn(p_named_task_uuid uuid, p_priority integer, p_newest_first boolean, p_after timestamptz, p_until timestamptz,
    p_now timestamptz, p_stays jsonb, p_began_since timestamptz, p_limit integer)
returns table(task_uuid uuid, state text, created_at timestamptz)
language sql stable as $$
    (select t.task_uuid, t.state, t.created_at from postrider.tasker_tasks t
      where p_newest_first and t.priority operator(pg_catalog.>) 0 and t.ready_at operator(pg_catalog.<=) p_now
        and t.named_task_uuid operator(pg_catalog.=) p_named_task_uuid and t.priority operator(pg_catalog.=) p_priority
        and t.created_at operator(pg_catalog.>) p_after and t.created_at operator(pg_catalog.<=) p_until and postrider.task_is_fresh(t, p_now, p_stays, p_began_since)
      order by t.created_at desc, t.task_uuid limit p_limit)
    union all
    (select t.task_uuid, t.state, t.created_at from postrider.tasker_tasks t
      where not p_newest_first and t.priority operator(pg_catalog.>) 0 and t.ready_at operator(pg_catalog.<=) p_now
        and t.named_task_uuid operator(pg_catalog.=) p_named_task_uuid and t.priority operator(pg_catalog.=) p_priority
        and t.created_at operator(pg_catalog.>) p_after and t.created_at operator(pg_catalog.<=) p_until and postrider.task_is_fresh(t, p_now, p_stays, p_began_since)
      order by t.created_at, t.task_uuid limit p_limit)
    union all
    (select t.task_uuid, t.state, t.created_at from postrider.tasker_tasks t
      where not p_newest_first and t.priority operator(pg_catalog.<=) 0 and t.ready_at operator(pg_catalog.<=) p_now
        and t.named_task_uuid operator(pg_catalog.=) p_named_task_uuid and t.priority operator(pg_catalog.=) p_priority
        and t.created_at operator(pg_catalog.>) p_after and t.created_at operator(pg_catalog.<=) p_until and postrider.task_is_fresh(t, p_now, p_stays, p_began_since)
      order by t.created_at, t.task_uuid limit p_limit)
$$;
comment on function postrider.tasks_in_turn(uuid, integer, boolean, timestamptz, timestamptz, timestamptz, jsonb, timestamptz, integer) is
'Internal. The first p_limit tasks of a template and a priority that have something to do and are not stale, created after p_after and until p_until.';
revoke all on function postrider.tasks_in_turn(uuid, integer, boolean, timestamptz, timestamptz, timestamptz, jsonb, timestamptz, integer) from public;
