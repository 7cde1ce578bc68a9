-- Stale tasks: tasks that are too long in a live state, or too old. They are found along the indexes of
-- tasker_tasks, each with the threshold of its own template, and a whole batch is moved, told of and
-- dead-lettered by a few statements.
create or replace function postrider.detect_and_transition_stale_tasks(
    p_dry_run boolean default true,
    p_batch_size integer default 100,
    p_waiting_deps_threshold_minutes integer default 60,
    p_waiting_retry_threshold_minutes integer default 30,
    p_steps_in_process_threshold_minutes integer default 30,
    p_task_max_lifetime_hours integer default 24,
    p_worker_unavailable_minutes integer default 10,
    p_auto_transition_to_error boolean default true,
    p_auto_move_to_dlq boolean default true,
    p_emit_events boolean default true,
    p_reason_staleness_timeout boolean default true,
    p_reason_worker_unavailable boolean default true)
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
    p_waiting_deps_threshold_minutes := coalesce(p_waiting_deps_threshold_minutes, 60);
    p_waiting_retry_threshold_minutes := coalesce(p_waiting_retry_threshold_minutes, 30);
    p_steps_in_process_threshold_minutes := coalesce(p_steps_in_process_threshold_minutes, 30);
    p_task_max_lifetime_hours := coalesce(p_task_max_lifetime_hours, 24);

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
                  and t.state_entered_at < v_now - b.stay
                order by t.state_entered_at limit p_batch_size) t
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
                  and t.state_entered_at < v_now - b.stay
                order by t.state_entered_at limit p_batch_size
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
    if cardinality(v_uuids) = 0 then
        return;
    end if;
    select s.* into strict v_settings from postrider.tasker_settings s;

    -- Why each task is stale, and what happens to it.
    with claimed as materialized (
        select u.n, t.task_uuid, t.named_task_uuid, t.state, t.state_entered_at, t.created_at, t.resumed_at, t.sort_key, t.retry_count, t.dead_letters
        from unnest(v_uuids) with ordinality u(task_uuid, n)
        join postrider.tasker_tasks t on t.task_uuid = u.task_uuid
        -- A dry run locks nothing: it may have ended meanwhile. Written so that no index of the live is looked through for it.
        where coalesce(t.live, false) and coalesce(t.stale_flagged_at, 'infinity') = 'infinity'
    ), template as materialized (
        select n.named_task_uuid, ns.name as namespace_name, n.name as task_name, n.version, n.state_machine_id,
               n.configuration->'lifecycle' as template, ns.lifecycle as namespace, m.failed_state, f.kind as failed_kind,
               case when n.configuration->'events'->>'topic' ~ '^[a-zA-Z0-9._-]{1,249}$' then n.configuration->'events'->>'topic'
                    else v_settings.lifecycle_topic end as topic,
               coalesce(n.configuration->'lifecycle'->>'staleness_action', ns.lifecycle->>'staleness_action', 'dlq') as action,
               coalesce(n.configuration->'lifecycle'->'auto_fail_on_timeout', ns.lifecycle->'auto_fail_on_timeout', 'true') <> 'false' as auto_fail,
               coalesce(n.configuration->'lifecycle'->'auto_dlq_on_timeout', ns.lifecycle->'auto_dlq_on_timeout', 'true') <> 'false' as auto_dlq,
               w.silent > make_interval(mins => coalesce(p_worker_unavailable_minutes, 10)) as no_worker,
               floor(extract(epoch from w.silent) / 60)::bigint as silent_minutes
        from (select distinct c.named_task_uuid from claimed c) b
        join postrider.tasker_named_tasks n on n.named_task_uuid = b.named_task_uuid
        join postrider.tasker_task_namespaces ns on ns.task_namespace_uuid = n.task_namespace_uuid
        join postrider.tasker_state_machines m on m.state_machine_id = n.state_machine_id
        left join postrider.tasker_machine_states f on f.state_machine_id = m.state_machine_id and f.state = m.failed_state
        cross join lateral (select v_now - max(w.last_heartbeat_at) as silent from postrider.tasker_workers w
                            where w.task_namespace_uuid = n.task_namespace_uuid) w
    )
    select array_agg(row(t.task_uuid, n.namespace_name, n.task_name, n.version, n.topic, t.state,
                         case when d.moves then n.failed_state else t.state end,
                         case when d.moves then n.failed_kind end,
                         t.sort_key, d.minutes, d.threshold, d.kind, d.source, d.reason, d.moves,
                         w.letter_id, case when w.letter_id is not null then postrider.outbox_event_id() end,
                         extract(epoch from v_now - coalesce(t.resumed_at, t.created_at))::double precision,
                         case d.kind when 'state' then 'STALE_STATE' else 'STALE_LIFETIME' end,
                         e.error_reason,
                         jsonb_build_object('actor', 'staleness_detector', 'reason', d.reason, 'error_reason', e.error_reason,
                             'error', jsonb_build_object('category', 'staleness', 'reason', d.reason, 'retry_count', t.retry_count),
                             'time_in_state_minutes', d.minutes, 'staleness_threshold_minutes', d.threshold,
                             'threshold_kind', d.kind, 'threshold_source', d.source))::postrider.tasker_stale_task order by t.n)
      into v_stale
      from claimed t
      join template n on n.named_task_uuid = t.named_task_uuid
      cross join lateral (
          select postrider.lifecycle_minutes(n.template, 'max_' || t.state || '_minutes') as of_template,
                 postrider.lifecycle_minutes(n.namespace, 'max_' || t.state || '_minutes') as of_namespace,
                 case t.state when 'waiting_for_dependencies' then p_waiting_deps_threshold_minutes
                              when 'waiting_for_retry' then p_waiting_retry_threshold_minutes
                              when 'steps_in_process' then p_steps_in_process_threshold_minutes
                              else 1440 end as of_default,
                 postrider.lifecycle_minutes(n.template, 'max_duration_minutes') as age_of_template,
                 postrider.lifecycle_minutes(n.namespace, 'max_duration_minutes') as age_of_namespace offset 0) l
      cross join lateral (
          select t.state_entered_at < v_now - make_interval(mins => coalesce(l.of_template, l.of_namespace, l.of_default)) as by_state) x
      cross join lateral (
          select case when x.by_state then 'state' else 'lifetime' end as kind,
                 case when x.by_state then coalesce(l.of_template, l.of_namespace, l.of_default)
                      else coalesce(l.age_of_template, l.age_of_namespace, p_task_max_lifetime_hours * 60) end as threshold,
                 case when x.by_state then case when l.of_template is not null then 'template' when l.of_namespace is not null then 'namespace' else 'default' end
                      else case when l.age_of_template is not null then 'template' when l.age_of_namespace is not null then 'namespace' else 'default' end end as source,
                 least(greatest(floor(extract(epoch from v_now - t.state_entered_at) / 60), -2147483648), 2147483647)::integer as minutes,
                 case when coalesce(n.no_worker, false) then 'worker_unavailable' else 'staleness_timeout' end::postrider.dlq_reason as reason,
                 n.action <> 'manual_review' and n.auto_fail and coalesce(p_auto_transition_to_error, true) and n.failed_kind is not null
                     and exists (select from postrider.tasker_machine_transitions a
                                 where a.state_machine_id = n.state_machine_id and a.from_state = t.state and a.to_state = n.failed_state) as moves,
                 n.action <> 'error' and n.auto_dlq and coalesce(p_auto_move_to_dlq, true)
                     and case when coalesce(n.no_worker, false) then coalesce(p_reason_worker_unavailable, true)
                              else coalesce(p_reason_staleness_timeout, true) end as letter offset 0) d
      cross join lateral (
          select case d.kind when 'state' then format('It was in %s for %s minutes; the limit is %s (%s).', t.state, d.minutes, d.threshold, d.source)
                      else format('It began %s minutes ago and has not ended; the limit is %s (%s).',
                                  floor(extract(epoch from v_now - coalesce(t.resumed_at, t.created_at)) / 60)::bigint, d.threshold, d.source) end
                 || case when d.reason = 'worker_unavailable' then format(' No worker of the namespace was heard of for %s minutes.', n.silent_minutes)
                         else '' end as error_reason offset 0) e
      cross join lateral ( -- as task_dead_letter: a letter of this stay and reason is written once
          select case when i.letter_id <> all (t.dead_letters) then i.letter_id end as letter_id
            from (select case when d.letter then format('task:%s:%s:%s', t.task_uuid, t.sort_key, d.reason) end as letter_id) i offset 0) w;

    if not p_dry_run and cardinality(v_stale) > 0 then
        perform postrider.access_owe();
        if p_emit_events is not false then
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
           set state = c.to_state, live = c.to_kind in ('initial', 'active', 'waiting'), state_entered_at = v_now, sort_key = c.sort_key + 1, stale_flagged_at = null,
               ready_at = null, updated_at = v_now, completed_at = case when c.to_kind = 'terminal' then v_now end, error_reason = c.error_reason,
               metadata = jsonb_set(t.metadata, '{error}', c.metadata->'error'),
               dead_letters = case when c.letter_id is null then t.dead_letters else array_append(t.dead_letters, c.letter_id) end
        from unnest(v_stale) c
        where c.moves and t.task_uuid = c.task_uuid;
        update postrider.tasker_tasks t set stale_flagged_at = v_now,
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
                                           s.last_error, s.state_entered_at, s.created_at, s.updated_at
                                    from postrider.tasker_workflow_steps s where s.task_uuid = c.task_uuid offset 0) s),
                        'transitions', (select coalesce(json_agg(r order by r.sort_key), '[]') from (
                                          select r.task_transition_uuid, r.from_state, r.to_state, r.metadata, r.sort_key, r.most_recent, r.created_at
                                          from postrider.tasker_task_transitions r where r.task_uuid = c.task_uuid offset 0) r))
                    else postrider.task_snapshot(c.task_uuid, false)::json end)::text, 'UTF8') as payload offset 0) p
            where c.letter_id is not null;
        end if;
    end if;

    return query
    select c.task_uuid, c.namespace_name::varchar, c.task_name::varchar, c.state::varchar, c.minutes, c.threshold,
           case when c.moves and c.letter_id is not null then 'move_to_dlq' when c.moves then 'transition_to_error'
                when c.letter_id is not null then 'manual_review' else 'flag' end::varchar,
           not p_dry_run and c.letter_id is not null,
           not p_dry_run and c.moves,
           c.threshold_kind::varchar, c.threshold_source::varchar, c.reason, c.age
    from unnest(v_stale) c;
end $$;
comment on function postrider.detect_and_transition_stale_tasks(boolean, integer, integer, integer, integer, integer, integer, boolean, boolean, boolean, boolean, boolean) is
'Finds tasks that are longer in a live state than its threshold, or older than their lifetime, and does with at most p_batch_size of them what their templates say; one row each. p_dry_run changes nothing and locks nothing. Tasks that another session has locked are left for a later call.

Thresholds: of the template (configuration->lifecycle), else of the namespace (lifecycle), else the parameters; 1440 minutes for the states that have none. threshold_kind (state, lifetime) and threshold_source (template, namespace, default) say which was exceeded; the state''s if both were.

action_taken: move_to_dlq (moved to the failed state of the machine, and a dead letter), transition_to_error (moved, no letter), manual_review (stays, and a dead letter), flag (stays, no letter). A task that stays is flagged, and is not found again before its next transition. The p_auto_ and p_reason_ parameters only take away from what templates say. moved_to_dlq and transition_success say what was done, and are false in a dry run. task_age_seconds is counted from when the task was created or resumed, as its lifetime is. The change, its lifecycle events and the dead letters are one transaction, that of the caller.';
revoke all on function postrider.detect_and_transition_stale_tasks(boolean, integer, integer, integer, integer, integer, integer, boolean, boolean, boolean, boolean, boolean) from public;
