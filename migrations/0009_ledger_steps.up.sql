-- Steps, and how they lead their task. Every function here takes the row lock of the task first.

create function postrider.task_lock(p_task_uuid uuid, p_what text) returns void
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp set enable_seqscan = off set jit = off as $$
declare
    t record;
begin
    -- The lock alone first: a join over the state would lose the row if whoever had the lock changed that.
    perform from postrider.tasker_tasks k where k.task_uuid = p_task_uuid for update;
    if not found then
        raise exception using errcode = 'P0002', message = format('postrider: there is no task %s', coalesce(p_task_uuid::text, 'null')),
            hint = 'It may have been archived: postrider task show.';
    end if;
    select k.state, s.kind into t
      from postrider.tasker_tasks k
      join postrider.tasker_named_tasks n using (named_task_uuid)
      join postrider.tasker_machine_states s on s.state_machine_id = n.state_machine_id and s.state = k.state
     where k.task_uuid = p_task_uuid;
    if p_what is not null and t.kind = 'terminal' then
        raise exception using errcode = '55000',
            message = format('postrider: cannot %s: task %s is %s, which is an end', p_what, p_task_uuid, t.state),
            hint = 'Its steps can no longer change; create a new task.';
    end if;
    if p_what in ('enqueue', 'start') and t.kind = 'failed' then
        raise exception using errcode = '55000',
            message = format('postrider: cannot %s a step: task %s is %s and waits for somebody', p_what, p_task_uuid, t.state),
            hint = 'Somebody has to act on its steps first: postrider task step retry.';
    end if;
end $$;
comment on function postrider.task_lock(uuid, text) is
'Internal. Takes the row lock of a task. With p_what (enqueue, start, complete …) it refuses with 55000 where a step of such a task cannot be treated so. P0002 for an unknown task.';

create function postrider.step_lock(p_step_uuid uuid, p_what text) returns postrider.tasker_workflow_steps
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp set enable_seqscan = off set jit = off as $$
declare
    v_task uuid;
    v_step postrider.tasker_workflow_steps;
begin
    -- Which task a step belongs to never changes, so it may be asked before the lock.
    select s.task_uuid into v_task from postrider.tasker_workflow_steps s where s.workflow_step_uuid = p_step_uuid;
    if not found then
        raise exception using errcode = 'P0002', message = format('postrider: there is no step %s', coalesce(p_step_uuid::text, 'null')),
            hint = 'Its task may have been archived.';
    end if;
    perform postrider.task_lock(v_task, p_what);
    select s.* into v_step from postrider.tasker_workflow_steps s where s.workflow_step_uuid = p_step_uuid;
    return v_step;
end $$;
comment on function postrider.step_lock(uuid, text) is 'Internal. Takes the row lock of a step''s task as task_lock does, and returns the step as it is then. P0002 for an unknown step.';

create function postrider.step_waits_for(p_step postrider.tasker_workflow_steps) returns text[]
language sql stable set search_path = pg_catalog, pg_temp as $$
    select coalesce(array_agg(d.name order by d.name), '{}')
      from unnest(p_step.dependencies) d(name)
     where not exists (select from postrider.tasker_workflow_steps o
                        where o.task_uuid = p_step.task_uuid and o.step_name = d.name
                          and o.status in ('complete', 'resolved_manually'))
$$;
comment on function postrider.step_waits_for(postrider.tasker_workflow_steps) is 'Internal. The names of the steps that a step depends on and that are not done.';

create function postrider.step_set(p_step postrider.tasker_workflow_steps, p_status text, p_metadata jsonb) returns void
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp set enable_seqscan = off set jit = off as $$
declare
    v_from text;
    v_now  timestamptz := clock_timestamp();
begin
    select s.status into v_from from postrider.tasker_workflow_steps s where s.workflow_step_uuid = p_step.workflow_step_uuid;
    update postrider.tasker_workflow_steps s
       set status = p_status, retry_count = p_step.retry_count, next_retry_at = p_step.next_retry_at,
           results = p_step.results, last_error = p_step.last_error,
           state_entered_at = case when s.status = p_status then s.state_entered_at else v_now end, updated_at = v_now
     where s.workflow_step_uuid = p_step.workflow_step_uuid;
    insert into postrider.tasker_workflow_step_transitions (task_uuid, workflow_step_uuid, from_status, to_status, metadata, created_at)
    values (p_step.task_uuid, p_step.workflow_step_uuid, v_from, p_status, p_metadata, v_now);
    update postrider.tasker_tasks k
       set updated_at = v_now, ready_at = postrider.task_ready_at(p_step.task_uuid, st.kind)
      from postrider.tasker_named_tasks n
      join postrider.tasker_machine_states st using (state_machine_id)
     where k.task_uuid = p_step.task_uuid and n.named_task_uuid = k.named_task_uuid and st.state = k.state;
    perform postrider.task_event(p_step.task_uuid, 'step_transitioned', jsonb_build_object(
        'workflow_step_uuid', p_step.workflow_step_uuid, 'step_name', p_step.step_name, 'from_status', v_from, 'to_status', p_status,
        'retry_count', p_step.retry_count, 'occurred_at', v_now,
        'actor', coalesce(p_metadata->>'actor', p_metadata->>'worker'), 'reason', p_metadata->>'reason', 'metadata', p_metadata));
end $$;
comment on function postrider.step_set(postrider.tasker_workflow_steps, text, jsonb) is
'Internal. Puts a step into a status, with retry_count, next_retry_at, results and last_error as in the given row, its history and its event. The caller holds the task''s row lock and decides whether it may.';

create function postrider.steps_set(p_task_uuid uuid, p_steps uuid[], p_status text, p_anew boolean, p_metadata jsonb) returns void
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp set enable_seqscan = off set jit = off as $$
declare
    v_now timestamptz := clock_timestamp();
begin
    with step as materialized (
        select s.workflow_step_uuid, s.step_name, s.position, s.status, case when p_anew then 0 else s.retry_count end as retry_count
          from postrider.tasker_workflow_steps s
         where s.task_uuid = p_task_uuid and s.workflow_step_uuid = any (p_steps)
    ), changed as (
        update postrider.tasker_workflow_steps s
           set status = p_status, retry_count = c.retry_count, next_retry_at = null, last_error = case when not p_anew then s.last_error end,
               state_entered_at = case when s.status = p_status then s.state_entered_at else v_now end, updated_at = v_now
          from step c
         where s.task_uuid = p_task_uuid and s.workflow_step_uuid = c.workflow_step_uuid
    ), noted as (
        insert into postrider.tasker_workflow_step_transitions (task_uuid, workflow_step_uuid, from_status, to_status, metadata, created_at)
        select p_task_uuid, c.workflow_step_uuid, c.status, p_status, p_metadata, v_now from step c order by c.position
    )
    insert into postrider.outbox_event (event_id, kind, topic, key, payload, headers)
    select e.event_id, 'task', t.topic, convert_to(p_task_uuid::text, 'UTF8'),
           convert_to(jsonb_build_object('task_uuid', p_task_uuid, 'namespace_name', t.namespace, 'task_name', t.template, 'version', t.version,
               'workflow_step_uuid', e.workflow_step_uuid, 'step_name', e.step_name, 'from_status', e.status, 'to_status', p_status,
               'retry_count', e.retry_count, 'occurred_at', v_now, 'actor', coalesce(p_metadata->>'actor', p_metadata->>'worker'),
               'reason', p_metadata->>'reason', 'metadata', p_metadata)::text, 'UTF8'),
           postrider.task_event_headers(e.event_id, 'postrider.task.step_transitioned.v1', t.namespace, t.template, p_task_uuid, v_now)
      from (select c.*, gen_random_uuid() as event_id from step c offset 0) e
      cross join (select n.name as template, n.version, ns.name as namespace, coalesce(n.configuration->'events'->>'topic', g.lifecycle_topic) as topic
                    from postrider.tasker_tasks k
                    join postrider.tasker_named_tasks n using (named_task_uuid)
                    join postrider.tasker_task_namespaces ns using (task_namespace_uuid)
                    join postrider.tasker_settings g on g.only_row
                   where k.task_uuid = p_task_uuid) t
     order by e.position;
    update postrider.tasker_tasks k
       set updated_at = v_now, ready_at = postrider.task_ready_at(p_task_uuid, st.kind)
      from postrider.tasker_named_tasks n
      join postrider.tasker_machine_states st using (state_machine_id)
     where k.task_uuid = p_task_uuid and n.named_task_uuid = k.named_task_uuid and st.state = k.state;
end $$;
comment on function postrider.steps_set(uuid, uuid[], text, boolean, jsonb) is
'Internal. What step_set does, for many steps of a task at once, in their order; none waits for a retry any more. With p_anew they have all their retries and no error. The caller holds the task''s row lock and decides whether it may.';

create function postrider.task_derived_state(p_task_uuid uuid) returns text
language sql stable set search_path = pg_catalog, pg_temp as $$
    with step as (
        select s.status, s.retry_count >= s.max_retries as spent,
               s.status = 'pending' and s.dependencies <@ coalesce(d.done, '{}') as ready
          from postrider.tasker_workflow_steps s
          cross join (select array_agg(o.step_name) as done from postrider.tasker_workflow_steps o
                       where o.task_uuid = p_task_uuid and o.status in ('complete', 'resolved_manually')) d
         where s.task_uuid = p_task_uuid
    )
    select case
        when count(*) = 0 then null
        when bool_or(status in ('enqueued', 'in_progress')) then 'steps_in_process'
        when bool_and(status in ('complete', 'resolved_manually')) then 'complete'
        when bool_or(ready) then 'enqueuing_steps'
        when bool_or(status = 'waiting_for_retry') then 'waiting_for_retry'
        when bool_or(status = 'error' and spent) then 'error'
        when bool_or(status = 'error') then 'blocked_by_failures'
        when bool_or(status = 'pending') then 'waiting_for_dependencies'
        end
    from step
$$;
comment on function postrider.task_derived_state(uuid) is
'Internal. The state that a task''s steps ask for, in the words of the built-in machine; null where they ask for none (no steps, or the rest was cancelled).';

create function postrider.task_path(p_state_machine_id integer, p_from text, p_to text) returns text[]
language plpgsql stable set search_path = pg_catalog, pg_temp set enable_seqscan = off set jit = off as $$
declare
    v_met    text[] := array[p_from];
    v_before integer[] := '{0}'; -- from which of them each was met
    v_at     integer := 1;
    v_state  text;
    v_path   text[] := '{}';
begin
    if exists (select from postrider.tasker_machine_transitions a
               where a.state_machine_id = p_state_machine_id and a.from_state = p_from and a.to_state = p_to) then
        return array[p_to];
    end if;
    if exists (select from postrider.tasker_machine_transitions a
                 join postrider.tasker_machine_transitions b on b.state_machine_id = p_state_machine_id and b.from_state = 'evaluating_results' and b.to_state = p_to
                where a.state_machine_id = p_state_machine_id and a.from_state = p_from and a.to_state = 'evaluating_results') then
        return array['evaluating_results', p_to];
    end if;
    -- The nearer states first, each met once; of ways that are equally long, the first by the names of their states.
    while v_at <= cardinality(v_met) loop
        for v_state in
            select a.to_state
              from postrider.tasker_machine_transitions a
              join postrider.tasker_machine_states s on s.state_machine_id = a.state_machine_id and s.state = a.to_state
             where a.state_machine_id = p_state_machine_id and a.from_state = v_met[v_at]
               and (s.kind = 'active' or a.to_state = p_to) and a.to_state <> all (v_met)
             order by a.to_state
        loop
            v_met := v_met || v_state;
            v_before := v_before || v_at;
            if v_state = p_to then
                v_at := cardinality(v_met);
                while v_at > 1 loop
                    v_path := v_met[v_at] || v_path;
                    v_at := v_before[v_at];
                end loop;
                return v_path;
            end if;
        end loop;
        v_at := v_at + 1;
    end loop;
    return null;
end $$;
comment on function postrider.task_path(integer, text, text) is
'Internal. The states to pass through from one state to another, the last included: directly where the machine allows it, else by evaluating_results, else by the shortest way through active states. Null if there is none.';

create function postrider.task_follow_steps(p_task_uuid uuid, p_may_recover boolean, p_metadata jsonb default null) returns text
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp set enable_seqscan = off set jit = off as $$
declare
    t        record;
    v_wanted text;
    v_to     text;
    v_hop    text;
    v_path   text[];
begin
    select k.state, k.sort_key, s.kind, n.state_machine_id, m.complete_state, m.failed_state, g.reason_max_retries_exceeded as letters
      into t
      from postrider.tasker_tasks k
      join postrider.tasker_named_tasks n using (named_task_uuid)
      join postrider.tasker_state_machines m using (state_machine_id)
      join postrider.tasker_machine_states s on s.state_machine_id = n.state_machine_id and s.state = k.state
      join postrider.tasker_settings g on g.only_row
     where k.task_uuid = p_task_uuid;
    if t.kind = 'terminal' or t.kind = 'failed' and not p_may_recover then
        return t.state;
    end if;
    v_wanted := postrider.task_derived_state(p_task_uuid);
    -- Out of a failed state leads only what goes on by itself.
    if v_wanted is null or t.kind = 'failed' and v_wanted in ('error', 'blocked_by_failures', 'waiting_for_dependencies') then
        return t.state;
    end if;
    v_to := case v_wanted when 'complete' then t.complete_state when 'error' then t.failed_state else v_wanted end;
    if v_to <> t.state then
        v_path := postrider.task_path(t.state_machine_id, t.state, v_to);
        foreach v_hop in array coalesce(v_path, '{}') loop
            perform postrider.task_move(p_task_uuid, v_hop, coalesce(p_metadata, '{"reason": "the steps ask for it"}'));
        end loop;
    end if;
    if v_wanted = 'error' and t.letters then
        perform postrider.task_dead_letter(p_task_uuid, 'max_retries_exceeded', t.state, t.sort_key, 'MAX_RETRIES_EXCEEDED',
            (select format('step %s failed and its %s retries are spent: %s', s.step_name, s.max_retries, coalesce(s.last_error, 'no error was given'))
               from postrider.tasker_workflow_steps s
              where s.task_uuid = p_task_uuid and s.status = 'error' and s.retry_count >= s.max_retries
              order by s.state_entered_at desc limit 1), p_metadata);
    end if;
    return case when cardinality(v_path) > 0 then v_to else t.state end;
end $$;
comment on function postrider.task_follow_steps(uuid, boolean, jsonb) is
'Internal. Takes a task where its steps lead it, over as many transitions as its machine needs, and returns the state it has then. A task whose machine has no such state, or no way there, stays. p_may_recover: out of a failed state too, which only a change for the better of a step may do. The caller holds the task''s row lock.';

create function postrider.evaluate_task(p_task_uuid uuid) returns text
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp set enable_seqscan = off set jit = off as $$
declare
    v_before text;
    v_after  text;
begin
    perform postrider.task_lock(p_task_uuid, null);
    v_before := (select k.state from postrider.tasker_tasks k where k.task_uuid = p_task_uuid);
    v_after := postrider.task_follow_steps(p_task_uuid, false);
    if v_after <> v_before then
        perform postrider.access_owe(p_service => true);
    end if;
    return v_after;
end $$;
comment on function postrider.evaluate_task(uuid) is
'Takes a task where its steps lead it and returns the state it has then. Changes of steps do this by themselves; who takes a new task calls it to begin. A task in a failed state stays there until somebody acts on its steps. P0002 for an unknown task.';

create function postrider.step_refuse(p_step postrider.tasker_workflow_steps, p_what text, p_from text, p_hint text default null) returns void
language plpgsql immutable set search_path = pg_catalog, pg_temp as $$
begin
    raise exception using errcode = '55000',
        message = format('postrider: cannot %s step %s (%s): it is %s, which must be %s', p_what, p_step.step_name, p_step.workflow_step_uuid, p_step.status, p_from),
        hint = coalesce(p_hint, format('It is of task %s.', p_step.task_uuid));
end $$;
comment on function postrider.step_refuse(postrider.tasker_workflow_steps, text, text, text) is 'Internal. Raises 55000: what cannot be done with a step, its status, and in which it could.';

create function postrider.step_due(p_step postrider.tasker_workflow_steps, p_what text) returns void
language plpgsql stable set search_path = pg_catalog, pg_temp set enable_seqscan = off set jit = off as $$
declare
    v_waits text[];
begin
    if p_step.status = 'waiting_for_retry' and p_step.next_retry_at > clock_timestamp() then
        raise exception using errcode = '55000',
            message = format('postrider: cannot %s step %s (%s): its retry is not before %s', p_what, p_step.step_name, p_step.workflow_step_uuid, p_step.next_retry_at),
            hint = 'To have it tried now: postrider task step retry.';
    elsif p_step.status = 'pending' then
        v_waits := postrider.step_waits_for(p_step);
        if cardinality(v_waits) > 0 then
            raise exception using errcode = '55000',
                message = format('postrider: cannot %s step %s (%s): it waits for %s', p_what, p_step.step_name, p_step.workflow_step_uuid, array_to_string(v_waits, ', ')),
                hint = 'These must be done first; get_ready_steps has those whose turn it is.';
        end if;
    end if;
end $$;
comment on function postrider.step_due(postrider.tasker_workflow_steps, text) is 'Internal. Raises 55000 when it is not yet a step''s turn: it waits for other steps, or for the time of its retry.';

create function postrider.enqueue_step(p_step_uuid uuid) returns text
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp set enable_seqscan = off set jit = off as $$
declare
    v_step postrider.tasker_workflow_steps := postrider.step_lock(p_step_uuid, 'enqueue');
begin
    if v_step.status not in ('pending', 'waiting_for_retry') then
        perform postrider.step_refuse(v_step, 'enqueue', 'pending or waiting_for_retry');
    end if;
    perform postrider.step_due(v_step, 'enqueue');
    v_step.next_retry_at := null;
    perform postrider.step_set(v_step, 'enqueued', null);
    perform postrider.task_follow_steps(v_step.task_uuid, true, jsonb_build_object('reason', format('step %s is enqueued', v_step.step_name)));
    return 'enqueued';
end $$;
comment on function postrider.enqueue_step(uuid) is
'For who hands out work: a step whose turn it is was given to a worker''s queue. Returns enqueued. 55000 says why it is not its turn, P0002 that there is no such step.';

create function postrider.start_step(p_step_uuid uuid, p_worker text default null) returns text
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp set enable_seqscan = off set jit = off as $$
declare
    v_step postrider.tasker_workflow_steps := postrider.step_lock(p_step_uuid, 'start');
    v_seen timestamptz;
begin
    if v_step.status not in ('pending', 'enqueued', 'waiting_for_retry') then
        perform postrider.step_refuse(v_step, 'start', 'pending, enqueued or waiting_for_retry',
            -- Named, so that a worker which did not hear the answer knows that it is its own.
            case when v_step.status = 'in_progress' then coalesce((
                select 'Worker ' || (x.metadata->>'worker') || ' has it.' from postrider.tasker_workflow_step_transitions x
                 where x.workflow_step_uuid = p_step_uuid and x.to_status = 'in_progress' order by x.created_at desc, x.step_transition_uuid desc limit 1),
                'Another worker has it.') end);
    end if;
    perform postrider.step_due(v_step, 'start');
    v_step.next_retry_at := null;
    perform postrider.step_set(v_step, 'in_progress', jsonb_strip_nulls(jsonb_build_object('worker', p_worker)));
    perform postrider.task_follow_steps(v_step.task_uuid, true, jsonb_strip_nulls(jsonb_build_object(
        'reason', format('step %s is in progress', v_step.step_name), 'worker', p_worker)));
    if p_worker is not null then
        select w.last_heartbeat_at into v_seen
          from postrider.tasker_tasks k
          join postrider.tasker_named_tasks n using (named_task_uuid)
          join postrider.tasker_workers w using (task_namespace_uuid)
         where k.task_uuid = v_step.task_uuid and w.worker = p_worker;
        -- Seldom enough that steps of one worker do not wait for each other here.
        if v_seen is null or v_seen < clock_timestamp() - interval '10 seconds' then
            perform postrider.worker_heartbeat(ns.name, p_worker)
               from postrider.tasker_tasks k
               join postrider.tasker_named_tasks n using (named_task_uuid)
               join postrider.tasker_task_namespaces ns using (task_namespace_uuid)
              where k.task_uuid = v_step.task_uuid;
        end if;
    end if;
    return 'in_progress';
end $$;
comment on function postrider.start_step(uuid, text) is
'For workers: takes a step whose turn it is. Only one succeeds; 55000 says why another cannot. p_worker counts as a heartbeat. Returns in_progress.';

create function postrider.complete_step(p_step_uuid uuid, p_results jsonb default null) returns text
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp set enable_seqscan = off set jit = off as $$
declare
    v_step postrider.tasker_workflow_steps;
begin
    select s.* into v_step from postrider.tasker_workflow_steps s where s.workflow_step_uuid = p_step_uuid;
    if v_step.status = 'complete' then
        return 'complete'; -- a worker that did not hear the answer asks again
    end if;
    v_step := postrider.step_lock(p_step_uuid, 'complete a step');
    if v_step.status = 'complete' then
        return 'complete';
    elsif v_step.status not in ('enqueued', 'in_progress') then
        perform postrider.step_refuse(v_step, 'complete', 'enqueued or in_progress');
    end if;
    perform postrider.task_check_json(p_results, 'the result of a step');
    v_step.results := p_results;
    v_step.next_retry_at := null;
    perform postrider.step_set(v_step, 'complete', null);
    perform postrider.task_follow_steps(v_step.task_uuid, true, jsonb_build_object('reason', format('step %s is complete', v_step.step_name)));
    return 'complete';
end $$;
comment on function postrider.complete_step(uuid, jsonb) is
'For workers: a step is done, with its results; the task follows. Returns complete, also when it was complete before, and then changes nothing. 55000 if it was not enqueued or in progress.';

create function postrider.fail_step(p_step_uuid uuid, p_error text, p_retryable boolean default true, p_retry_after interval default null)
returns text language plpgsql volatile security definer set search_path = pg_catalog, pg_temp set enable_seqscan = off set jit = off as $$
declare
    v_step    postrider.tasker_workflow_steps := postrider.step_lock(p_step_uuid, 'fail a step');
    v_seconds double precision;
    v_status  text;
begin
    if v_step.status not in ('enqueued', 'in_progress') then
        perform postrider.step_refuse(v_step, 'fail', 'enqueued or in_progress');
    end if;
    if p_retry_after < interval '0' or p_retry_after > interval '365 days' then
        raise exception using errcode = '22023', message = format('postrider: retry_after is %s, it must be from 0 to 365 days', p_retry_after),
            hint = 'Leave it out, and the pauses of the template hold.';
    end if;
    v_step.last_error := coalesce(nullif(left(p_error, 10000), ''), 'no error was given');
    if coalesce(p_retryable, true) and v_step.retry_count < v_step.max_retries then
        v_status := 'waiting_for_retry';
        v_step.retry_count := v_step.retry_count + 1;
        -- 2^52 is past every limit, and short of an overflow.
        v_seconds := least(v_step.retry_base_seconds * power(2, least(v_step.retry_count - 1, 52)), v_step.retry_max_seconds) * (1 + 0.2 * random());
        v_step.next_retry_at := clock_timestamp() + coalesce(p_retry_after, make_interval(secs => v_seconds));
    else
        v_status := 'error';
        v_step.next_retry_at := null;
    end if;
    perform postrider.step_set(v_step, v_status, jsonb_build_object('reason', v_step.last_error));
    perform postrider.task_follow_steps(v_step.task_uuid, false, jsonb_build_object('reason',
        left(format('step %s failed: %s', v_step.step_name, v_step.last_error), 10000)));
    return v_status;
end $$;
comment on function postrider.fail_step(uuid, text, boolean, interval) is
'For workers: a step failed. While it has retries it waits for the next (retry_base_seconds doubling up to retry_max_seconds, plus up to a fifth; or p_retry_after): returns waiting_for_retry. p_error is kept to 10,000 characters. Otherwise, or if it is not retryable, returns error, and the task is blocked, or failed and dead-lettered when the retries are spent.';

create function postrider.step_action(p_task_uuid uuid, p_step_uuid uuid, p_action text, p_notes text default null, p_actor text default null, p_results jsonb default null)
returns text language plpgsql volatile security definer set search_path = pg_catalog, pg_temp set enable_seqscan = off set jit = off as $$
declare
    v_step   postrider.tasker_workflow_steps;
    v_status text;
    v_why    jsonb;
begin
    if p_action is null or p_action not in ('retry', 'reset_retry_count', 'cancel', 'complete_manually') then
        raise exception using errcode = '22023',
            message = format('postrider: there is no step action %s; there are retry, reset_retry_count, cancel, complete_manually', coalesce(p_action, 'null'));
    end if;
    perform postrider.task_check_who(p_actor, p_notes);
    perform postrider.task_lock(p_task_uuid, p_action || ' a step');
    select s.* into v_step from postrider.tasker_workflow_steps s where s.workflow_step_uuid = p_step_uuid and s.task_uuid = p_task_uuid;
    if not found then
        raise exception using errcode = 'P0002', message = format('postrider: task %s has no step %s', p_task_uuid, coalesce(p_step_uuid::text, 'null')),
            hint = 'Its steps: postrider task steps.';
    end if;
    v_why := jsonb_strip_nulls(jsonb_build_object('action', p_action, 'actor', p_actor, 'notes', p_notes, 'reason', coalesce(p_notes, p_action)));
    case p_action
    when 'retry' then
        if v_step.status not in ('pending', 'waiting_for_retry', 'error', 'cancelled') then
            perform postrider.step_refuse(v_step, 'retry', 'pending, waiting_for_retry, error or cancelled');
        end if;
        v_status := 'enqueued';
        v_step.next_retry_at := null;
    when 'reset_retry_count' then
        if v_step.status in ('complete', 'resolved_manually', 'cancelled') then
            perform postrider.step_refuse(v_step, 'reset the retries of', 'pending, enqueued, in_progress, waiting_for_retry or error');
        end if;
        v_status := case when v_step.status in ('waiting_for_retry', 'error') then 'pending' else v_step.status end;
        v_step.retry_count := 0;
        v_step.next_retry_at := null;
    when 'cancel' then
        if v_step.status in ('complete', 'resolved_manually', 'cancelled') then
            perform postrider.step_refuse(v_step, 'cancel', 'pending, enqueued, in_progress, waiting_for_retry or error');
        end if;
        v_status := 'cancelled';
        v_step.next_retry_at := null;
    when 'complete_manually' then
        if v_step.status in ('complete', 'resolved_manually') then
            perform postrider.step_refuse(v_step, 'complete by hand', 'not done yet');
        end if;
        v_status := 'resolved_manually';
        perform postrider.task_check_json(p_results, 'the result of a step');
        v_step.results := coalesce(p_results, v_step.results);
        v_step.next_retry_at := null;
    end case;
    perform postrider.access_owe();
    perform postrider.step_set(v_step, v_status, v_why);
    perform postrider.task_follow_steps(p_task_uuid, p_action <> 'cancel',
        jsonb_strip_nulls(jsonb_build_object('reason', format('step %s: %s', v_step.step_name, p_action), 'actor', p_actor, 'notes', p_notes)));
    return v_status;
end $$;
comment on function postrider.step_action(uuid, uuid, text, text, text, jsonb) is
'For people: retry (give it to a worker now, whatever it waits for), reset_retry_count (as if it had never failed; a failed one is pending again), cancel, complete_manually (somebody did it by hand, with results if there are any). The task follows: out of a failed state too when it can go on. Returns the step''s new status; 55000 where its status or the task''s state forbids it, 22023 for an unknown action, an actor of more than 256 bytes and notes of more than 4096; P0002 for an unknown task or step.';

create function postrider.cancel_task(p_task_uuid uuid, p_actor text, p_notes text) returns boolean
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp set enable_seqscan = off set jit = off as $$
declare
    t      record;
    v_why  jsonb := jsonb_strip_nulls(jsonb_build_object('action', 'cancel', 'actor', p_actor, 'notes', p_notes, 'reason', coalesce(p_notes, 'cancelled')));
begin
    perform postrider.task_check_who(p_actor, p_notes);
    perform postrider.task_lock(p_task_uuid, null);
    select k.state, s.kind, m.name as machine, m.state_machine_id, m.cancelled_state into t
      from postrider.tasker_tasks k
      join postrider.tasker_named_tasks n using (named_task_uuid)
      join postrider.tasker_state_machines m using (state_machine_id)
      join postrider.tasker_machine_states s on s.state_machine_id = m.state_machine_id and s.state = k.state
     where k.task_uuid = p_task_uuid;
    if t.kind = 'terminal' then
        return false;
    end if;
    if t.cancelled_state is null then
        raise exception using errcode = '55000', message = format('postrider: cannot cancel task %s: machine %s has no state for cancelled tasks', p_task_uuid, t.machine),
            hint = 'Move it to an end of its own with postrider task transition, or give the machine of a new version of its template the role cancelled.';
    end if;
    if not exists (select from postrider.tasker_machine_transitions a
                   where a.state_machine_id = t.state_machine_id and a.from_state = t.state and a.to_state = t.cancelled_state) then
        raise exception using errcode = '22023', message = format('postrider: task %s cannot go from %s to %s: %s', p_task_uuid, t.state,
            t.cancelled_state, postrider.task_machine_allows(t.state_machine_id, t.state)),
            hint = 'Move it first to a state from which that is allowed: postrider task transition.';
    end if;
    perform postrider.access_owe(p_service => true);
    perform postrider.steps_set(p_task_uuid, array(
        select s.workflow_step_uuid from postrider.tasker_workflow_steps s
         where s.task_uuid = p_task_uuid and s.status not in ('complete', 'resolved_manually', 'cancelled')), 'cancelled', false,
        -- A task may have thousands of steps: what was said at length its own transition has.
        case when length(p_notes) > 200 then v_why - 'notes' || jsonb_build_object('reason', left(p_notes, 200) || ' …') else v_why end);
    perform postrider.task_move(p_task_uuid, t.cancelled_state, v_why);
    return true;
end $$;
comment on function postrider.cancel_task(uuid, text, text) is
'Cancels a task and its steps that are not done. False if it had ended before, and nothing is changed. 55000 or 22023 if its machine knows no way to a cancelled state, P0002 for an unknown task; 22023, too, for an actor of more than 256 bytes and notes of more than 4096. Where the notes are longer than 200 characters the steps'' history and events have their beginning, the task''s the whole.';

revoke all on function postrider.task_lock(uuid, text) from public;
revoke all on function postrider.step_lock(uuid, text) from public;
revoke all on function postrider.step_waits_for(postrider.tasker_workflow_steps) from public;
revoke all on function postrider.step_set(postrider.tasker_workflow_steps, text, jsonb) from public;
revoke all on function postrider.steps_set(uuid, uuid[], text, boolean, jsonb) from public;
revoke all on function postrider.task_derived_state(uuid) from public;
revoke all on function postrider.task_path(integer, text, text) from public;
revoke all on function postrider.task_follow_steps(uuid, boolean, jsonb) from public;
revoke all on function postrider.evaluate_task(uuid) from public;
revoke all on function postrider.step_refuse(postrider.tasker_workflow_steps, text, text, text) from public;
revoke all on function postrider.step_due(postrider.tasker_workflow_steps, text) from public;
revoke all on function postrider.enqueue_step(uuid) from public;
revoke all on function postrider.start_step(uuid, text) from public;
revoke all on function postrider.complete_step(uuid, jsonb) from public;
revoke all on function postrider.fail_step(uuid, text, boolean, interval) from public;
revoke all on function postrider.step_action(uuid, uuid, text, text, text, jsonb) from public;
revoke all on function postrider.cancel_task(uuid, text, text) from public;
