-- Stale tasks: tasks that are too long in a live state, or too old. They are found along the indexes of
-- tasker_tasks, each with the threshold of its own template, and a whole batch is moved, told of and
-- dead-lettered by a few statements.
create or replace function postrider.detect_and_transition_stale_tasks(
    p_dry_run boolean default true,
    p_batch_size integer default 100,
    p_waiting_deps_threshold_minutes integer default null,
    p_waiting_retry_threshold_minutes integer default null,
    p_steps_in_process_threshold_minutes integer default null,
    p_task_max_lifetime_hours integer default null,
    p_worker_unavailable_minutes integer default null,
    p_auto_transition_to_error boolean default null,
    p_auto_move_to_dlq boolean default null,
    p_emit_events boolean default null,
    p_reason_staleness_timeout boolean default null,
    p_reason_worker_unavailable boolean default null)
returns table (
    task_uuid uuid, namespace_name varchar, task_name varchar, current_state varchar, time_in_state_minutes integer,
    staleness_threshold_minutes integer, action_taken varchar, moved_to_dlq boolean, transition_success boolean,
    threshold_kind varchar, threshold_source varchar, dlq_reason postrider.dlq_reason, task_age_seconds double precision)
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp
-- No plan may hang on statistics: after a bulk load they are wrong.
set enable_seqscan = off set enable_bitmapscan = off set enable_hashjoin = off set enable_mergejoin = off set enable_sort = off
set enable_memoize = off set plan_cache_mode = force_generic_plan set jit = off
as $$
declare
    v_now       timestamptz := clock_timestamp();
    v_first     uuid;
    v_uuids     uuid[];
    v_more      uuid[];
    v_flagged   uuid[] := '{}';
    v_fresh     uuid[];
    v_stale     postrider.tasker_stale_task[];
    v_settings  postrider.tasker_settings;
    v_limit     integer := least(900000, postrider.outbox_max_payload_bytes());
begin
    if p_dry_run is null or p_batch_size is null or p_batch_size < 1 then
        raise exception using errcode = '22023',
            message = format('postrider: p_dry_run is %s and p_batch_size is %s; the one must not be null, the other must be positive',
                             coalesce(p_dry_run::text, 'null'), coalesce(p_batch_size::text, 'null')),
            hint = 'Left out, it is a dry run of at most 100 tasks.';
    end if;
    perform postrider.task_check_thresholds(p_waiting_deps_threshold_minutes, p_waiting_retry_threshold_minutes, p_steps_in_process_threshold_minutes,
                                            p_task_max_lifetime_hours, p_worker_unavailable_minutes);
    v_settings := postrider.task_settings(p_waiting_deps_threshold_minutes, p_waiting_retry_threshold_minutes, p_steps_in_process_threshold_minutes,
                                          p_task_max_lifetime_hours);
    v_settings.worker_unavailable_minutes := coalesce(p_worker_unavailable_minutes, v_settings.worker_unavailable_minutes);
    v_settings.auto_transition_to_error := coalesce(p_auto_transition_to_error, v_settings.auto_transition_to_error);
    v_settings.auto_move_to_dlq := coalesce(p_auto_move_to_dlq, v_settings.auto_move_to_dlq);
    v_settings.emit_events := coalesce(p_emit_events, v_settings.emit_events);
    v_settings.reason_staleness_timeout := coalesce(p_reason_staleness_timeout, v_settings.reason_staleness_timeout);
    v_settings.reason_worker_unavailable := coalesce(p_reason_worker_unavailable, v_settings.reason_worker_unavailable);
    p_waiting_deps_threshold_minutes := v_settings.waiting_for_dependencies_minutes;
    p_waiting_retry_threshold_minutes := v_settings.waiting_for_retry_minutes;
    p_steps_in_process_threshold_minutes := v_settings.steps_in_process_minutes;
    p_task_max_lifetime_hours := v_settings.task_max_lifetime_hours;

    if not p_dry_run then
        perform postrider.tasks_merge_counts();
    end if;

    -- Two walks: along the stays, then along the ages for the rest of the batch. Locks are taken one by
    -- one as the rows come, so never more of them than the batch is large. A task that another
    -- session has locked is found in a later pass.
    if p_dry_run then
        select array_agg(c.task_uuid) into v_uuids from (
            select t.task_uuid
            from postrider.lifecycle_stays(1, p_waiting_deps_threshold_minutes, p_waiting_retry_threshold_minutes, p_steps_in_process_threshold_minutes) b
            cross join lateral (
                select t.task_uuid from postrider.tasker_tasks t
                where t.live and t.stale_flagged_at is null and t.named_task_uuid = b.named_task_uuid and t.state = b.state
                  and coalesce(t.stay_from, t.state_entered_at) < v_now - b.stay
                order by coalesce(t.stay_from, t.state_entered_at) limit p_batch_size) t
            limit p_batch_size) c;
        if coalesce(cardinality(v_uuids), 0) < p_batch_size then
            select array_agg(c.task_uuid) into v_more from (
                select t.task_uuid
                from postrider.lifecycle_lifetimes(1, p_task_max_lifetime_hours) b
                cross join lateral (
                    select t.task_uuid from postrider.tasker_tasks t
                    where t.live and t.stale_flagged_at is null and t.named_task_uuid = b.named_task_uuid
                      and coalesce(t.resumed_at, t.created_at) < v_now - b.lifetime and t.task_uuid <> all (coalesce(v_uuids, '{}'))
                    order by coalesce(t.resumed_at, t.created_at) limit p_batch_size) t
                limit p_batch_size - coalesce(cardinality(v_uuids), 0)) c;
        end if;
    else
        -- Each call begins behind another template and goes around. So detectors that work at once seldom walk over
        -- what the others have locked, or over what these just moved and no vacuum has removed.
        select n.named_task_uuid into v_first from postrider.tasker_named_tasks n order by n.named_task_uuid
        offset floor(random() * (select count(*) from postrider.tasker_named_tasks)) limit 1;
        select array_agg(c.task_uuid) into v_uuids from (
            select t.task_uuid
            from (select s.* from postrider.lifecycle_stays(1, p_waiting_deps_threshold_minutes, p_waiting_retry_threshold_minutes,
                                                            p_steps_in_process_threshold_minutes, p_after => v_first) s
                  union all
                  select s.* from postrider.lifecycle_stays(1, p_waiting_deps_threshold_minutes, p_waiting_retry_threshold_minutes,
                                                            p_steps_in_process_threshold_minutes, p_until => v_first) s) b
            cross join lateral (
                select t.task_uuid from postrider.tasker_tasks t
                where t.live and t.stale_flagged_at is null and t.named_task_uuid = b.named_task_uuid and t.state = b.state
                  and coalesce(t.stay_from, t.state_entered_at) < v_now - b.stay
                order by coalesce(t.stay_from, t.state_entered_at) limit p_batch_size
                for update of t skip locked) t
            limit p_batch_size) c;
        if coalesce(cardinality(v_uuids), 0) < p_batch_size then
            select array_agg(c.task_uuid) into v_more from (
                select t.task_uuid
                from (select l.* from postrider.lifecycle_lifetimes(1, p_task_max_lifetime_hours, p_after => v_first) l
                      union all
                      select l.* from postrider.lifecycle_lifetimes(1, p_task_max_lifetime_hours, p_until => v_first) l) b
                cross join lateral (
                    select t.task_uuid from postrider.tasker_tasks t
                    where t.live and t.stale_flagged_at is null and t.named_task_uuid = b.named_task_uuid
                      and coalesce(t.resumed_at, t.created_at) < v_now - b.lifetime and t.task_uuid <> all (coalesce(v_uuids, '{}'))
                    order by coalesce(t.resumed_at, t.created_at) limit p_batch_size
                    for update of t skip locked) t
                limit p_batch_size - coalesce(cardinality(v_uuids), 0)) c;
        end if;
    end if;
    v_uuids := coalesce(v_uuids, '{}') || coalesce(v_more, '{}');
    -- A third walk: tasks that were left in place by a rule that is not the rule any more, or that passed their other
    -- threshold since.
    if cardinality(v_uuids) < p_batch_size then
        select array_agg(c.task_uuid) filter (where c.stale), array_agg(c.task_uuid) filter (where not c.stale) into v_flagged, v_fresh
        from (
            select t.task_uuid, t.stay_began < v_now - b.stay or t.began < v_now - b.lifetime as stale
            from postrider.flagged_rules(v_now, v_settings) b
            cross join lateral (
                (select k.task_uuid, coalesce(k.stay_from, k.state_entered_at) as stay_began, coalesce(k.resumed_at, k.created_at) as began
                 from postrider.tasker_tasks k
                 where k.live and k.stale_flagged_at is not null and k.named_task_uuid = b.named_task_uuid and k.state = b.state
                   and k.stale_rule < b.rule
                 order by k.stale_rule, k.stale_until limit 10 * p_batch_size)
                union all
                (select k.task_uuid, coalesce(k.stay_from, k.state_entered_at), coalesce(k.resumed_at, k.created_at)
                 from postrider.tasker_tasks k
                 where k.live and k.stale_flagged_at is not null and k.named_task_uuid = b.named_task_uuid and k.state = b.state
                   and k.stale_rule > b.rule
                 order by k.stale_rule, k.stale_until limit 10 * p_batch_size)
                union all
                (select k.task_uuid, coalesce(k.stay_from, k.state_entered_at), coalesce(k.resumed_at, k.created_at)
                 from postrider.tasker_tasks k
                 where k.live and k.stale_flagged_at is not null and k.named_task_uuid = b.named_task_uuid and k.state = b.state
                   and k.stale_rule = b.rule and k.stale_until < v_now
                 order by k.stale_until limit 10 * p_batch_size)) t) c;
        v_flagged := coalesce(v_flagged[1:p_batch_size - cardinality(v_uuids)], '{}');
        if not p_dry_run then
            select coalesce(array_agg(l.task_uuid), '{}') into v_flagged
            from (select t.task_uuid from postrider.tasker_tasks t
                  where t.task_uuid = any (v_flagged) and t.live and t.stale_flagged_at is not null for update skip locked) l;
            -- A flag that no rule upholds ends.
            with fresh as materialized (
                select t.task_uuid from postrider.tasker_tasks t
                where t.task_uuid = any (coalesce(v_fresh, '{}')) and t.live and t.stale_flagged_at is not null for update skip locked)
            update postrider.tasker_tasks t set stale_flagged_at = null, stale_rule = '', stale_until = null
            from fresh f where t.task_uuid = f.task_uuid;
        end if;
        v_uuids := v_uuids || v_flagged;
    end if;
    if cardinality(v_uuids) = 0 then
        return;
    end if;

    -- Why each task is stale, and what happens to it.
    with claimed as materialized (
        select u.n, t.task_uuid, t.named_task_uuid, t.state, t.state_entered_at, t.stay_from, coalesce(t.stay_from, t.state_entered_at) as stay_began,
               coalesce(t.resumed_at, t.created_at) as began, t.sort_key, t.retry_count, t.dead_letters
        from unnest(v_uuids) with ordinality u(task_uuid, n)
        join postrider.tasker_tasks t on t.task_uuid = u.task_uuid
        -- A dry run locks nothing: it may have ended meanwhile. Written so that no index of the live is looked through for it.
        where coalesce(t.live, false) and (coalesce(t.stale_flagged_at, 'infinity') = 'infinity' or t.task_uuid = any (v_flagged))
    ), rule as materialized (
        select p.named_task_uuid, p.state, r.*
        from (select distinct c.named_task_uuid, c.state from claimed c) p
        cross join lateral postrider.task_stale_rule(p.named_task_uuid, p.state, v_now, v_settings) r
    ), template as materialized (
        select n.named_task_uuid, ns.name as namespace_name, n.name as task_name, n.version, m.failed_state, f.kind as failed_kind,
               case when n.configuration->'events'->>'topic' ~ '^[a-zA-Z0-9._-]{1,249}$' then n.configuration->'events'->>'topic'
                    else v_settings.lifecycle_topic end as topic
        from (select distinct c.named_task_uuid from claimed c) b
        join postrider.tasker_named_tasks n on n.named_task_uuid = b.named_task_uuid
        join postrider.tasker_task_namespaces ns on ns.task_namespace_uuid = n.task_namespace_uuid
        join postrider.tasker_state_machines m on m.state_machine_id = n.state_machine_id
        left join postrider.tasker_machine_states f on f.state_machine_id = m.state_machine_id and f.state = m.failed_state
    )
    select array_agg(row(t.task_uuid, n.namespace_name, n.task_name, n.version, n.topic, t.state,
                         case when r.moves then n.failed_state else t.state end,
                         case when r.moves then n.failed_kind end,
                         t.sort_key, d.minutes, d.threshold, d.kind, d.source, r.reason, r.rule, d.other_at, r.moves,
                         w.letter_id, case when w.letter_id is not null then postrider.outbox_event_id() end,
                         case when r.moves and w.letter_id is not null then 'move_to_dlq' when r.moves then 'transition_to_error'
                              when w.letter_id is not null then 'manual_review' else 'flag' end,
                         extract(epoch from v_now - t.began)::double precision,
                         case d.kind when 'state' then 'STALE_STATE' else 'STALE_LIFETIME' end,
                         e.error_reason,
                         jsonb_build_object('actor', 'staleness_detector', 'reason', r.reason, 'error_reason', e.error_reason,
                             'error', jsonb_build_object('category', 'staleness', 'reason', r.reason, 'retry_count', t.retry_count),
                             'time_in_state_minutes', d.minutes, 'staleness_threshold_minutes', d.threshold,
                             'threshold_kind', d.kind, 'threshold_source', d.source))::postrider.tasker_stale_task order by t.n)
      into v_stale
      from claimed t
      join template n on n.named_task_uuid = t.named_task_uuid
      join rule r on r.named_task_uuid = t.named_task_uuid and r.state = t.state
      cross join lateral (
          select t.stay_began < v_now - make_interval(mins => r.stay) as by_state, t.began < v_now - make_interval(mins => r.lifetime) as by_age) x
      cross join lateral (
          select case when x.by_state then 'state' else 'lifetime' end as kind,
                 case when x.by_state then r.stay else r.lifetime end as threshold,
                 case when x.by_state then r.stay_source else r.lifetime_source end as source,
                 least(greatest(floor(extract(epoch from v_now - case when x.by_state then t.stay_began else t.state_entered_at end) / 60), -2147483648), 2147483647)::integer as minutes,
                 -- A clock that was wrong must not end in a time that the table refuses.
                 case when not x.by_age then least(t.began + make_interval(mins => r.lifetime), '9998-01-01 00:00:00+00')
                      when not x.by_state then least(t.stay_began + make_interval(mins => r.stay), '9998-01-01 00:00:00+00') end as other_at offset 0) d
      cross join lateral (
          select case d.kind when 'state' then format('It was in %s for %s minutes%s; the limit is %s (%s).', t.state, d.minutes,
                                  case when t.stay_from is not null then ' without progress' else '' end, d.threshold, d.source)
                      else format('It began %s minutes ago and has not ended; the limit is %s (%s).',
                                  floor(extract(epoch from v_now - t.began) / 60)::bigint, d.threshold, d.source) end
                 || case when r.reason <> 'worker_unavailable' then ''
                         when r.silent_minutes is null then ' No worker of the namespace was ever heard of.'
                         else format(' No worker of the namespace was heard of for %s minutes.', r.silent_minutes) end as error_reason offset 0) e
      cross join lateral ( -- as task_dead_letter: a letter of this stay and reason is written once. A stay whose clock was restarted has another.
          select case when i.letter_id <> all (t.dead_letters) then i.letter_id end as letter_id
            from (select case when r.letter then concat_ws(':', 'task', t.task_uuid, t.sort_key, r.reason,
                                                           floor(extract(epoch from t.stay_from) * 1000)) end as letter_id) i offset 0) w
     where x.by_state or x.by_age;

    if not p_dry_run and cardinality(v_stale) > 0 then
        perform postrider.access_owe('{task.detect_stale}', 'task');
        insert into postrider.tasker_task_counts (kind, state, outcome, tasks)
        select 'stale', c.state, c.action, count(*) from unnest(v_stale) c group by c.state, c.action
        union all
        select 'dead_letter', c.state, c.reason::text, count(*) from unnest(v_stale) c where c.letter_id is not null group by c.state, c.reason;
        if v_settings.emit_events then
            perform postrider.outbox_insert(array_agg(i.event_id), array_agg('task'::text), array_agg(i.topic), array_agg(convert_to(i.task_uuid::text, 'UTF8')),
                   array_agg(convert_to(json_build_object('task_uuid', i.task_uuid, 'namespace_name', i.namespace_name, 'task_name', i.task_name,
                       'version', i.version, 'occurred_at', v_now, 'from_state', i.state, 'to_state', i.to_state, 'sort_key', i.sort_key,
                       'actor', i.metadata->'actor', 'reason', i.metadata->'reason', 'metadata', i.metadata)::text, 'UTF8')),
                   array_agg(postrider.task_event_headers(i.event_id, 'postrider.task.' || v_settings.event_channel || '.v1',
                                                          i.namespace_name, i.task_name, i.task_uuid, v_now)))
            from (select c.*, postrider.outbox_event_id() as event_id from unnest(v_stale) c offset 0) i;
        end if;

        -- As task_move does for one.
        update postrider.tasker_task_transitions r set most_recent = false
        from unnest(v_stale) c
        where c.moves and r.task_uuid = c.task_uuid and r.most_recent;
        insert into postrider.tasker_task_transitions (task_uuid, from_state, to_state, metadata, sort_key, most_recent, created_at)
        select c.task_uuid, c.state, c.to_state, c.metadata, c.sort_key + 1, true, v_now
        from unnest(v_stale) c where c.moves;
        update postrider.tasker_tasks t
           set state = c.to_state, live = c.to_kind in ('initial', 'active', 'waiting'), state_entered_at = v_now, sort_key = c.sort_key + 1,
               stale_flagged_at = null, stale_rule = '', stale_until = null, stay_from = null,
               ready_at = null, updated_at = v_now, completed_at = case when c.to_kind = 'terminal' then v_now end, error_reason = c.error_reason,
               metadata = jsonb_set(t.metadata, '{error}', c.metadata->'error'),
               dead_letters = case when c.letter_id is null then t.dead_letters else array_append(t.dead_letters, c.letter_id) end
        from unnest(v_stale) c
        where c.moves and t.task_uuid = c.task_uuid;
        update postrider.tasker_tasks t set stale_flagged_at = v_now, stale_rule = c.rule, stale_until = c.stale_until,
               dead_letters = case when c.letter_id is null then t.dead_letters else array_append(t.dead_letters, c.letter_id) end
        from unnest(v_stale) c
        where not c.moves and t.task_uuid = c.task_uuid;
        perform postrider.outbox_insert(array_agg(i.event_id), array_agg('task'::text), array_agg(i.topic), array_agg(convert_to(i.task_uuid::text, 'UTF8')),
               array_agg(convert_to(json_build_object('task_uuid', i.task_uuid, 'namespace_name', i.namespace_name, 'task_name', i.task_name,
                   'version', i.version, 'occurred_at', v_now, 'from_state', i.state, 'to_state', i.to_state, 'sort_key', i.sort_key + 1,
                   'actor', i.metadata->'actor', 'reason', i.metadata->'reason', 'metadata', i.metadata)::text, 'UTF8')),
               array_agg(postrider.task_event_headers(i.event_id, 'postrider.task.transitioned.v1', i.namespace_name, i.task_name, i.task_uuid, v_now)))
        from (select c.*, postrider.outbox_event_id() as event_id from unnest(v_stale) c where c.moves offset 0) i;

        -- As task_dead_letter does for one.
        if exists (select from unnest(v_stale) c where c.letter_id is not null) then
            insert into postrider.tasker_letter (letter_id, task_uuid)
            select c.letter_id, c.task_uuid from unnest(v_stale) c where c.letter_id is not null
            on conflict do nothing;
            perform postrider.outbox_insert(array_agg(c.letter_event_id), array_agg('task'::text), array_agg(v_settings.dlq_topic),
                   array_agg(convert_to(c.task_uuid::text, 'UTF8')),
                   array_agg(case when octet_length(p.payload) <= v_limit then p.payload
                                  else postrider.task_letter_payload(convert_from(p.payload, 'UTF8')::jsonb, v_limit) end),
                   array_agg(postrider.task_letter_headers(c.letter_event_id, c.letter_id, c.namespace_name, c.task_name, c.task_uuid, v_now)),
                   null, null, array_agg(c.letter_id))
            from unnest(v_stale) c
            join postrider.tasker_tasks t on t.task_uuid = c.task_uuid
            join postrider.tasker_named_tasks n on n.named_task_uuid = t.named_task_uuid
            join postrider.tasker_state_machines m on m.state_machine_id = n.state_machine_id
            cross join lateral (
                -- json and not jsonb: it is only written, and that costs half. The columns are the same as in task_snapshot.
                select convert_to(json_build_object('letter_id', c.letter_id, 'task_uuid', c.task_uuid, 'namespace_name', c.namespace_name,
                    'task_name', c.task_name, 'version', c.version, 'dlq_reason', c.reason, 'original_state', c.state,
                    'dead_lettered_at', v_now, 'error_code', c.error_code, 'error_message', c.error_reason, 'metadata', c.metadata,
                    'snapshot', case when v_settings.include_full_task_snapshot then json_build_object(
                        'task', to_jsonb(t),
                        'template', json_build_object('named_task_uuid', n.named_task_uuid, 'namespace_name', c.namespace_name,
                                                      'task_name', c.task_name, 'version', c.version, 'machine', m.name),
                        'steps', (select coalesce(json_agg(s order by s.position), '[]') from (
                                    select s.workflow_step_uuid, s.step_name, s.handler_name, s.position, s.dependencies, s.status, s.retry_count,
                                           s.max_retries, s.retry_base_seconds, s.retry_max_seconds, s.next_retry_at, s.inputs, s.results,
                                           s.last_error, s.fencing_number, s.state_entered_at, s.created_at, s.updated_at
                                    from postrider.tasker_workflow_steps s where s.task_uuid = c.task_uuid offset 0) s),
                        'transitions', (select coalesce(json_agg(r order by r.sort_key), '[]') from (
                                          select r.task_transition_uuid, r.from_state, r.to_state, r.metadata, r.sort_key, r.most_recent, r.created_at
                                          from postrider.tasker_task_transitions r where r.task_uuid = c.task_uuid offset 0) r))
                    else postrider.task_snapshot(c.task_uuid, false)::json end)::text, 'UTF8') as payload offset 0) p
            where c.letter_id is not null;
        end if;
    end if;

    return query
    select c.task_uuid, c.namespace_name::varchar, c.task_name::varchar, c.state::varchar, c.minutes, c.threshold, c.action::varchar,
           not p_dry_run and c.letter_id is not null,
           not p_dry_run and c.moves,
           c.threshold_kind::varchar, c.threshold_source::varchar, c.reason, c.age
    from unnest(v_stale) c;
end $$;
comment on function postrider.detect_and_transition_stale_tasks(boolean, integer, integer, integer, integer, integer, integer, boolean, boolean, boolean, boolean, boolean) is
'Finds tasks that are longer in a live state than its threshold, or older than their lifetime, and does with at most p_batch_size of them what their templates say; one row each. p_dry_run changes nothing and locks nothing. Tasks that another session has locked are left for a later call.

Thresholds: of the template (configuration->lifecycle), else of the namespace (lifecycle), else the parameters, else tasker_settings; 1440 minutes for the states that have none. The stay in a state counts from the last start or completion of a step in it, and while a task waits for a retry from the time of that. threshold_kind (state, lifetime) and threshold_source (template, namespace, default) say which was exceeded; the state''s if both were.

action_taken: move_to_dlq (moved to the failed state of the machine, and a dead letter), transition_to_error (moved, no letter), manual_review (stays, and a dead letter), flag (stays, no letter). A task that stays is flagged, and is found again when it moved, when its rule changed (a threshold, or what is done), or when it passes its other threshold; a flag that no rule upholds ends. The p_auto_, p_emit_ and p_reason_ parameters, and tasker_settings where they are null, only take away from what templates say. moved_to_dlq and transition_success say what was done, and are false in a dry run. task_age_seconds is counted from when the task was created or resumed, as its lifetime is. The change, its lifecycle events and the dead letters are one transaction, that of the caller.';
revoke all on function postrider.detect_and_transition_stale_tasks(boolean, integer, integer, integer, integer, integer, integer, boolean, boolean, boolean, boolean, boolean) from public;
