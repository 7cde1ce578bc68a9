-- Without settings of its own, so that it is inlined, and a query that has enough rows looks for no more of them. Who
-- calls it switches off the plans that tempt the planner.
create or replace function postrider.lifecycle_stays(
    p_share double precision, p_waiting_deps_threshold_minutes integer, p_waiting_retry_threshold_minutes integer,
    p_steps_in_process_threshold_minutes integer, p_after uuid default null, p_until uuid default null)
returns table (named_task_uuid uuid, state text, stay interval)
language sql stable as $$
    select o.named_task_uuid, s.state,
           p_share operator(pg_catalog.*) pg_catalog.make_interval(mins => coalesce(
               postrider.lifecycle_minutes(o.template, pg_catalog.concat('max_', s.state, '_minutes')),
               postrider.lifecycle_minutes(o.namespace, pg_catalog.concat('max_', s.state, '_minutes')),
               case s.state when 'waiting_for_dependencies' then p_waiting_deps_threshold_minutes
                            when 'waiting_for_retry' then p_waiting_retry_threshold_minutes
                            when 'steps_in_process' then p_steps_in_process_threshold_minutes
                            else 1440 end))
    from postrider.lifecycle_templates(p_after, p_until) o
    cross join lateral (
        with recursive step as (
            select (select t.state from postrider.tasker_tasks t
                    where t.live and t.stale_flagged_at is null and t.named_task_uuid operator(pg_catalog.=) o.named_task_uuid
                    order by t.state, coalesce(t.stay_from, t.state_entered_at) limit 1) as state
            union all
            select (select t.state from postrider.tasker_tasks t
                    where t.live and t.stale_flagged_at is null and t.named_task_uuid operator(pg_catalog.=) o.named_task_uuid
                      and t.state operator(pg_catalog.>) p.state
                    order by t.state, coalesce(t.stay_from, t.state_entered_at) limit 1)
            from step p where p.state is not null
        )
        select p.state from step p where p.state is not null) s
$$;
comment on function postrider.lifecycle_stays(double precision, integer, integer, integer, uuid, uuid) is
'Internal. For each template and each state that has live tasks which are not flagged: how long they may stay there. The threshold of the template goes before that of its namespace, that before the parameter; 1440 minutes for the states that have none. p_share is the share of each threshold that is returned, 1 for the whole. It reads one task per template and state.';
revoke all on function postrider.lifecycle_stays(double precision, integer, integer, integer, uuid, uuid) from public;
