-- Without settings of its own, so that it is inlined; so every name is written with its schema.
create or replace function postrider.task_is_fresh(p_task postrider.tasker_tasks, p_now timestamptz, p_stays jsonb, p_began_since timestamptz) returns boolean
language sql stable as $$
    select coalesce(p_task.live, false) and coalesce(p_task.resumed_at, p_task.created_at) operator(pg_catalog.>=) p_began_since
           and coalesce(p_task.stay_from, p_task.state_entered_at) operator(pg_catalog.>=) (p_now operator(pg_catalog.-)
               pg_catalog.make_interval(mins => (p_stays operator(pg_catalog.->>) p_task.state)::pg_catalog.int4))
$$;
comment on function postrider.task_is_fresh(postrider.tasker_tasks, timestamptz, jsonb, timestamptz) is
'Internal. Whether a task is not stale: p_stays says how many minutes it may be in each live state, p_began_since when it must have begun.';
revoke all on function postrider.task_is_fresh(postrider.tasker_tasks, timestamptz, jsonb, timestamptz) from public;
