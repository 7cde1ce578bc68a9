create or replace function postrider.get_next_ready_tasks(p_limit integer default 10, p_namespace text default null,
    p_waiting_for_dependencies_minutes integer default null, p_waiting_for_retry_minutes integer default null,
    p_steps_in_process_minutes integer default null, p_task_max_lifetime_hours integer default null, p_priority_half_life_minutes integer default 60)
returns table(task_uuid uuid, namespace_name text, task_name text, state text, priority integer, computed_priority double precision, ready_steps integer)
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp set enable_seqscan = off set enable_bitmapscan = off set jit = off as $$
#variable_conflict use_column
declare
    v_now    timestamptz := clock_timestamp();
    v_given  uuid[] := '{}';
    v_ready  integer;
    v_many   boolean;
    v_window integer;
    v_seen   integer;
    v_bad    text;
    v_settings postrider.tasker_settings;
    c        record;
begin
    select format('%s is %s, it must be from %s to %s', a.name, coalesce(a.value::text, 'null'), a.least, a.most) into v_bad
      from (values ('p_limit', p_limit, 1, 10000),
                   ('p_waiting_for_dependencies_minutes', p_waiting_for_dependencies_minutes, 1, 525600000),
                   ('p_waiting_for_retry_minutes', p_waiting_for_retry_minutes, 1, 525600000),
                   ('p_steps_in_process_minutes', p_steps_in_process_minutes, 1, 525600000),
                   ('p_task_max_lifetime_hours', p_task_max_lifetime_hours, 1, 8760000),
                   ('p_priority_half_life_minutes', p_priority_half_life_minutes, 1, 525600000)) a(name, value, least, most)
     where a.value is null and a.name in ('p_limit', 'p_priority_half_life_minutes') or a.value not between a.least and a.most limit 1;
    if found then
        raise exception using errcode = '22023', message = 'postrider: ' || v_bad;
    end if;
    v_settings := postrider.task_settings(p_waiting_for_dependencies_minutes, p_waiting_for_retry_minutes, p_steps_in_process_minutes, p_task_max_lifetime_hours);
    v_window := p_limit + 20;
    -- A few that are due are gathered and sorted. Of many the first are looked for, and more of them as others turn
    -- out to have these locked.
    v_many := (select count(*) from (
        select from postrider.tasker_named_tasks n
         cross join lateral (select from postrider.tasker_tasks k where k.named_task_uuid = n.named_task_uuid and k.ready_at <= v_now
                              order by k.ready_at limit 1001) d limit 1001) q) > 1000;
    loop
        v_seen := 0;
        -- Candidates in order, without locks; each is then locked and looked at again.
        for c in
            select q.* from postrider.task_candidates(v_now, p_namespace, v_settings.waiting_for_dependencies_minutes, v_settings.waiting_for_retry_minutes,
                v_settings.steps_in_process_minutes, v_settings.task_max_lifetime_hours * 60, p_priority_half_life_minutes) q where not v_many
            union all
            select q.* from postrider.first_candidates(v_now, p_namespace, v_settings.waiting_for_dependencies_minutes, v_settings.waiting_for_retry_minutes,
                v_settings.steps_in_process_minutes, v_settings.task_max_lifetime_hours * 60, p_priority_half_life_minutes, v_window) q where v_many
            order by weight desc, created_at, task_uuid
        loop
            v_seen := v_seen + 1;
            continue when v_window > p_limit + 20 and c.task_uuid = any (v_given);
            select k.state into state
              from postrider.tasker_tasks k
             where k.task_uuid = c.task_uuid and k.live
               for update skip locked;
            continue when not found;
            select count(*) into v_ready from postrider.get_ready_steps(c.task_uuid);
            continue when v_ready = 0 and (c.begun or state <> c.state);
            task_uuid := c.task_uuid;
            namespace_name := c.namespace;
            task_name := c.template;
            priority := c.priority;
            computed_priority := c.weight;
            ready_steps := v_ready;
            perform nextval('postrider.tasker_tasks_discovered');
            return next;
            v_given := v_given || c.task_uuid;
            if cardinality(v_given) >= p_limit then
                return;
            end if;
        end loop;
        exit when not v_many or v_seen < v_window;
        v_window := v_window * 4;
    end loop;
end $$;
comment on function postrider.get_next_ready_tasks(integer, text, integer, integer, integer, integer, integer) is
'For a program that hands out work: tasks that have not begun (initial state) or that have steps whose turn it is, locked for the caller''s transaction; tasks that other sessions have locked are skipped. First by computed_priority: priority halved with every p_priority_half_life_minutes since the task was created; then the oldest. Stale tasks are left out by the same rule as the detector''s (template before namespace before the parameters before tasker_settings, which has what postrider serve is set to; other states 1440 minutes), so that they cannot drown the fresh ones. A flag of an earlier rule withholds no task.';
revoke all on function postrider.get_next_ready_tasks(integer, text, integer, integer, integer, integer, integer) from public;
