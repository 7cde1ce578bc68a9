-- The walk goes along tasker_tasks_ended, whatever the statistics say: they are wrong after a bulk load.
create or replace function postrider.archive_completed_tasks(
    p_retention_days integer default 30,
    p_batch_size integer default 1000,
    p_dry_run boolean default true,
    p_archive_completed boolean default true,
    p_archive_failed boolean default true,
    p_archive_cancelled boolean default false,
    p_archive_dlq_resolved boolean default true,
    p_after_entered timestamptz default null,
    p_after_task uuid default null)
returns table(tasks_archived integer, steps_archived integer, transitions_archived integer, execution_time_ms integer,
    complete_archived integer, error_archived integer, cancelled_archived integer, dlq_resolved_archived integer,
    more boolean, last_entered timestamptz, last_task uuid)
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
set enable_seqscan = off set enable_bitmapscan = off set enable_hashjoin = off set enable_mergejoin = off set enable_sort = off set jit = off as $$
#variable_conflict use_column
declare
    v_began  timestamptz := clock_timestamp();
    v_cutoff timestamptz;
    v_found  uuid[];
    v_tasks  uuid[];
    v_finals text[];
    v_moves  integer[];
    v_letters integer[];
    v_changes timestamptz[];
    v_moved  integer;
    v_walk   bigint := greatest(10 * p_batch_size::bigint, 10000);
    v_end_entered timestamptz;
    v_end_task    uuid;
begin
    if p_retention_days is null or p_retention_days not between 0 and 36500 then
        raise exception using errcode = '22023', message = format('postrider: p_retention_days is %s, it must be from 0 to 36500', coalesce(p_retention_days::text, 'null')),
            hint = 'Left out, it is 30.';
    end if;
    if p_batch_size is null or p_batch_size not between 1 and 100000 then
        raise exception using errcode = '22023', message = format('postrider: p_batch_size is %s, it must be from 1 to 100000', coalesce(p_batch_size::text, 'null')),
            hint = 'Left out, it is 1000; a call is one transaction, for which others'' commits wait.';
    end if;
    if p_dry_run is null or p_archive_completed is null or p_archive_failed is null or p_archive_cancelled is null or p_archive_dlq_resolved is null then
        raise exception using errcode = '22023', message = 'postrider: p_dry_run and the policies must be true or false, not null',
            hint = 'Leave out what should be as usual.';
    end if;
    v_cutoff := v_began - make_interval(days => p_retention_days);

    -- Candidates are found without locks, so that no transaction waits while this passes tasks that must stay. A call looks
    -- at a limited number of tasks, so that many of them do not make it long. They are read as they are needed.
    with walked as materialized (
        select t.task_uuid, t.named_task_uuid, t.state, t.state_entered_at, t.sort_key, t.dead_letters, t.updated_at
          from postrider.tasker_tasks t
         where not t.live and t.state_entered_at < v_cutoff
           and (t.state_entered_at, t.task_uuid) > (coalesce(p_after_entered, '-infinity'), coalesce(p_after_task, '00000000-0000-0000-0000-000000000000'))
         order by t.state_entered_at, t.task_uuid
         limit v_walk
    ), found as materialized (
        select w.task_uuid, w.state_entered_at, w.sort_key, cardinality(w.dead_letters) as letters, w.updated_at, f.final_state
          from walked w
         cross join lateral (
            select s.kind = 'failed' as failed,
                   case when w.state = m.cancelled_state then 'cancelled'
                        when cardinality(w.dead_letters) > 0 then 'dlq_resolved'
                        when s.kind = 'failed' or w.state in (m.failed_state, m.dead_letter_state, m.archived_state) then 'error'
                        else 'complete' end as final_state
              from postrider.tasker_named_tasks n
              join postrider.tasker_state_machines m on m.state_machine_id = n.state_machine_id
              left join postrider.tasker_machine_states s on s.state_machine_id = m.state_machine_id and s.state = w.state
             where n.named_task_uuid = w.named_task_uuid offset 0) f
         where case f.final_state when 'cancelled' then p_archive_cancelled when 'dlq_resolved' then p_archive_dlq_resolved
                                  when 'error' then p_archive_failed else p_archive_completed end
           -- If an operator acts on the steps of a failed task, it is not left alone, though it does not go on yet.
           and (f.failed is not true or w.updated_at < v_cutoff)
           and postrider.task_letters_closed(w.task_uuid, w.dead_letters)
         limit p_batch_size
    )
    select array_agg(f.task_uuid order by f.state_entered_at, f.task_uuid),
           array_agg(f.final_state order by f.state_entered_at, f.task_uuid),
           array_agg(f.sort_key order by f.state_entered_at, f.task_uuid),
           array_agg(f.letters order by f.state_entered_at, f.task_uuid),
           array_agg(f.updated_at order by f.state_entered_at, f.task_uuid), max(f.state_entered_at),
           case when count(*) < p_batch_size then (select w.state_entered_at from walked w offset v_walk - 1) end,
           case when count(*) < p_batch_size then (select w.task_uuid from walked w offset v_walk - 1) end
    into v_found, v_finals, v_moves, v_letters, v_changes, last_entered, v_end_entered, v_end_task
    from found f;
    last_task := v_found[cardinality(v_found)];
    more := coalesce(cardinality(v_found), 0) = p_batch_size or v_end_task is not null;
    if v_end_task is not null then
        last_entered := v_end_entered;
        last_task := v_end_task;
    end if;

    if p_dry_run then
        v_tasks := coalesce(v_found, '{}');
        select count(*) into steps_archived from unnest(v_tasks) i(task_uuid) join postrider.tasker_workflow_steps s on s.task_uuid = i.task_uuid;
        select count(*) into transitions_archived from unnest(v_tasks) i(task_uuid) join postrider.tasker_task_transitions x on x.task_uuid = i.task_uuid;
    else
        -- Another session may have changed a task meanwhile, or have it locked: it is left for another call. A transaction that
        -- moves a task, acts on its steps, or writes a dead letter of it, holds its lock and changes one of these three.
        -- Without a new letter, a task whose investigations are closed stays so.
        select array_agg(k.task_uuid), array_agg(k.final_state) into v_tasks, v_finals
        from (select t.task_uuid, c.final_state
              from unnest(v_found, v_finals, v_moves, v_letters, v_changes) c(task_uuid, final_state, sort_key, letters, updated_at)
              join postrider.tasker_tasks t on t.task_uuid = c.task_uuid
              where t.sort_key = c.sort_key and cardinality(t.dead_letters) = c.letters and t.updated_at = c.updated_at
              for update of t skip locked) k;
        v_tasks := coalesce(v_tasks, '{}');

        -- As task_event does for one.
        perform postrider.outbox_insert(array_agg(e.event_id), array_agg('task'::text), array_agg(e.topic), array_agg(convert_to(e.task_uuid::text, 'UTF8')),
               array_agg(convert_to(jsonb_build_object('task_uuid', e.task_uuid, 'namespace_name', e.namespace, 'task_name', e.template, 'version', e.version,
                   'occurred_at', v_began, 'from_state', e.state, 'to_state', e.state, 'sort_key', e.sort_key, 'actor', null,
                   'reason', 'ended longer ago than the retention', 'metadata', null, 'final_state', e.final_state, 'archived_at', v_began)::text, 'UTF8')),
               array_agg(postrider.task_event_headers(e.event_id, 'postrider.task.archived.v1', e.namespace, e.template, e.task_uuid, v_began)))
        from (select postrider.outbox_event_id() as event_id, t.task_uuid, t.state, t.sort_key, i.final_state, s.name as namespace, n.name as template, n.version,
                     coalesce(n.configuration->'events'->>'topic', g.lifecycle_topic) as topic
              from unnest(v_tasks, v_finals) i(task_uuid, final_state)
              join postrider.tasker_tasks t on t.task_uuid = i.task_uuid
              join postrider.tasker_named_tasks n on n.named_task_uuid = t.named_task_uuid
              join postrider.tasker_task_namespaces s on s.task_namespace_uuid = n.task_namespace_uuid
              cross join postrider.tasker_settings g
              offset 0) e;

        -- The deleted rows are inserted: a row cannot be in both places, nor in none.
        with gone as (
            delete from postrider.tasker_workflow_step_transitions x using unnest(v_tasks) i(task_uuid) where x.task_uuid = i.task_uuid returning x.*)
        insert into postrider.tasker_workflow_step_transitions_archive
            (step_transition_uuid, task_uuid, workflow_step_uuid, from_status, to_status, metadata, created_at, archived_at)
        select step_transition_uuid, task_uuid, workflow_step_uuid, from_status, to_status, metadata, created_at, v_began from gone;

        with gone as (
            delete from postrider.tasker_workflow_steps s using unnest(v_tasks) i(task_uuid) where s.task_uuid = i.task_uuid returning s.*)
        insert into postrider.tasker_workflow_steps_archive
            (workflow_step_uuid, task_uuid, step_name, handler_name, position, dependencies, status, retry_count, max_retries,
             retry_base_seconds, retry_max_seconds, next_retry_at, inputs, results, last_error, fencing_number, state_entered_at, created_at, updated_at, archived_at)
        select workflow_step_uuid, task_uuid, step_name, handler_name, position, dependencies, status, retry_count, max_retries,
               retry_base_seconds, retry_max_seconds, next_retry_at, inputs, results, last_error, fencing_number, state_entered_at, created_at, updated_at, v_began
        from gone;
        get diagnostics steps_archived = row_count;

        with gone as (
            delete from postrider.tasker_task_transitions x using unnest(v_tasks) i(task_uuid) where x.task_uuid = i.task_uuid returning x.*)
        insert into postrider.tasker_task_transitions_archive
            (task_transition_uuid, task_uuid, from_state, to_state, metadata, sort_key, most_recent, created_at, archived_at)
        select task_transition_uuid, task_uuid, from_state, to_state, metadata, sort_key, most_recent, created_at, v_began from gone;
        get diagnostics transitions_archived = row_count;

        perform from postrider.tasker_letter l join unnest(v_tasks) i(task_uuid) on l.task_uuid = i.task_uuid order by l.letter_id for update of l;
        delete from postrider.tasker_letter l using unnest(v_tasks) i(task_uuid) where l.task_uuid = i.task_uuid;

        with gone as (
            delete from postrider.tasker_tasks t using unnest(v_tasks, v_finals) i(task_uuid, final_state) where t.task_uuid = i.task_uuid
            returning t.*, i.final_state)
        insert into postrider.tasker_tasks_archive
            (task_uuid, named_task_uuid, state, live, state_entered_at, sort_key, context, priority, retry_count, idempotency_key,
             error_reason, metadata, stale_flagged_at, stale_rule, stale_until, stay_from, dead_letters, ready_at, resumed_at, created_at, updated_at, completed_at,
             namespace_name, task_name, task_version, final_state, archived_at)
        select g.task_uuid, g.named_task_uuid, g.state, g.live, g.state_entered_at, g.sort_key, g.context, g.priority, g.retry_count, g.idempotency_key,
               g.error_reason, g.metadata, g.stale_flagged_at, g.stale_rule, g.stale_until, g.stay_from, g.dead_letters, g.ready_at, g.resumed_at, g.created_at, g.updated_at, g.completed_at,
               s.name, n.name, n.version, g.final_state, v_began
        from gone g
        join postrider.tasker_named_tasks n on n.named_task_uuid = g.named_task_uuid
        join postrider.tasker_task_namespaces s on s.task_namespace_uuid = n.task_namespace_uuid;
        get diagnostics v_moved = row_count;
        if v_moved <> cardinality(v_tasks) then
            raise exception using errcode = 'XX000', message = format('postrider: of %s tasks %s came to the archive; nothing was moved', cardinality(v_tasks), v_moved),
                hint = 'A template or a namespace of a task is missing. Look at the foreign keys of tasker_tasks and tasker_named_tasks.';
        end if;

        -- Last, because archivers wait for each other here; in one order, so that no two wait in a circle.
        insert into postrider.tasker_archive_statistics as a (month, final_state, tasks, steps, transitions, last_archived_at)
        select date_trunc('month', t.created_at at time zone 'UTC')::date, t.final_state, count(*), sum(s.steps), sum(x.transitions), v_began
        from unnest(v_tasks) i(task_uuid)
        join postrider.tasker_tasks_archive t on t.task_uuid = i.task_uuid
        cross join lateral (select count(*) as steps from postrider.tasker_workflow_steps_archive s where s.task_uuid = t.task_uuid) s
        cross join lateral (select count(*) as transitions from postrider.tasker_task_transitions_archive x where x.task_uuid = t.task_uuid) x
        group by 1, 2
        order by 1, 2
        on conflict (month, final_state) do update
        set tasks = a.tasks + excluded.tasks, steps = a.steps + excluded.steps, transitions = a.transitions + excluded.transitions,
            last_archived_at = greatest(a.last_archived_at, excluded.last_archived_at);
    end if;
    tasks_archived := cardinality(v_tasks);
    select count(*) filter (where f = 'complete'), count(*) filter (where f = 'error'), count(*) filter (where f = 'cancelled'), count(*) filter (where f = 'dlq_resolved')
    into complete_archived, error_archived, cancelled_archived, dlq_resolved_archived
    from unnest(v_finals) f;
    execution_time_ms := (extract(epoch from clock_timestamp() - v_began) * 1000)::integer;
    return next;
end $$;
comment on function postrider.archive_completed_tasks(integer, integer, boolean, boolean, boolean, boolean, boolean, timestamptz, uuid) is
'Moves tasks that ended (or failed and were left alone) more than p_retention_days days ago into the archive, the longest ended first, at most p_batch_size of them in this transaction, and tells of each by an event. A task with a pending investigation, of its own or of an event that moved it to its dead-letter state, or with a dead letter that is not recorded yet, stays. A dry run counts what one call would move and locks nothing. Which ends count is said by the policies: completed, failed, cancelled, dlq_resolved (it or an event of it was dead-lettered, each investigation closed). more says that the batch was full, or that ten times as many tasks (and at least 10000) were looked at, and that there may be more behind them; given as p_after_entered and p_after_task, last_entered and last_task let the next call go on behind this one without walking over what stays.';
revoke all on function postrider.archive_completed_tasks(integer, integer, boolean, boolean, boolean, boolean, boolean, timestamptz, uuid) from public;
