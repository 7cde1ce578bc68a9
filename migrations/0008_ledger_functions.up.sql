-- How the ledger's tasks change: one function moves a task, everything else goes through it. Each change
-- writes its event into the outbox in the same transaction, under the task's row lock, so that the events of
-- a task have their ids in the order in which it changed.
--
-- A session keeps its plans, and one that was made while a table was small would read the whole of it for ever:
-- so functions that look at tables do it without sequential scans, and without compiling what these would cost.

create function postrider.task_event(p_task_uuid uuid, p_type text, p_data jsonb) returns uuid
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp set enable_seqscan = off set jit = off as $$
declare
    t         record;
    v_id      uuid := gen_random_uuid();
    v_data    jsonb;
    v_payload bytea;
    v_limit   integer := least(900000, postrider.outbox_max_payload_bytes());
begin
    select n.name as template, n.version, ns.name as namespace, n.configuration->'events'->>'topic' as topic, s.lifecycle_topic
      into t
      from postrider.tasker_tasks k
      join postrider.tasker_named_tasks n using (named_task_uuid)
      join postrider.tasker_task_namespaces ns using (task_namespace_uuid)
      join postrider.tasker_settings s on s.only_row
     where k.task_uuid = p_task_uuid;
    if not found then
        raise exception using errcode = 'P0002', message = format('postrider: there is no task %s', coalesce(p_task_uuid::text, 'null'));
    end if;
    v_data := jsonb_build_object('task_uuid', p_task_uuid, 'namespace_name', t.namespace, 'task_name', t.template,
                                 'version', t.version, 'occurred_at', clock_timestamp()) || coalesce(p_data, '{}');
    v_payload := convert_to(v_data::text, 'UTF8');
    if octet_length(v_payload) > v_limit then
        v_payload := convert_to(postrider.task_event_cut(v_data, v_limit)::text, 'UTF8');
    end if;
    insert into postrider.outbox_event (event_id, kind, topic, key, payload, headers)
    values (v_id, 'task', coalesce(t.topic, t.lifecycle_topic), convert_to(p_task_uuid::text, 'UTF8'), v_payload,
            postrider.task_event_headers(v_id, 'postrider.task.' || p_type || '.v1', t.namespace, t.template, p_task_uuid,
                                         (v_data->>'occurred_at')::timestamptz));
    return v_id;
end $$;
comment on function postrider.task_event(uuid, text, jsonb) is
'Internal. Writes a lifecycle event of a task into the outbox, in CloudEvents'' binary form, and returns its id. p_type is the last word of its type before the version, for example transitioned; p_data is added to what identifies the task. Under 900 kB: what is left out of a larger one it says, see task_event_cut. The caller holds the task''s row lock. P0002 for an unknown task.';

create function postrider.task_event_cut(p_data jsonb, p_limit integer) returns jsonb
language sql immutable set search_path = pg_catalog, pg_temp as $$
    -- A part goes whole or stays whole: half of a JSON value is none.
    select p_data || jsonb_strip_nulls(jsonb_build_object('actor', left(p_data->>'actor', 256), 'reason', left(p_data->>'reason', p_limit / 32)))
           || (select coalesce(jsonb_object_agg(g.part, g.instead), '{}')
                 from (values ('metadata', 'null'::jsonb), ('context', 'null'), ('steps', '[]')) g(part, instead)
                where octet_length((p_data->g.part)::text) > p_limit / 4)
           || jsonb_build_object('truncated', true, 'sizes',
                  (select coalesce(jsonb_object_agg(g.part, octet_length((p_data->g.part)::text)), '{}')
                     from unnest(array['reason', 'metadata', 'context', 'steps']) g(part) where p_data ? g.part))
$$;
comment on function postrider.task_event_cut(jsonb, integer) is
'Internal. An event about a task that is larger than p_limit bytes, made smaller: metadata and context are null and steps is empty where they are larger than a quarter of that, actor and reason are shortened. It says so: truncated, and the sizes in bytes of what was there. The task itself has all of it: task_snapshot.';

create function postrider.task_event_headers(p_event_id uuid, p_type text, p_namespace text, p_task_name text, p_task_uuid uuid, p_time timestamptz)
returns jsonb language sql stable parallel safe as $$
    -- Without a search_path of its own, so that it is inlined; so every name is written with its schema.
    select pg_catalog.jsonb_build_array(
        pg_catalog.jsonb_build_array('ce_specversion', '1.0'),
        pg_catalog.jsonb_build_array('ce_id', p_event_id),
        pg_catalog.jsonb_build_array('ce_source', pg_catalog.concat('/postrider/', p_namespace, '/', p_task_name)),
        pg_catalog.jsonb_build_array('ce_type', p_type),
        pg_catalog.jsonb_build_array('ce_subject', p_task_uuid),
        pg_catalog.jsonb_build_array('ce_time', pg_catalog.to_char(pg_catalog.timezone('UTC', p_time), 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"')),
        pg_catalog.jsonb_build_array('content-type', 'application/json'))
$$;
comment on function postrider.task_event_headers(uuid, text, text, text, uuid, timestamptz) is
'Internal. The headers of an event about a task: the attributes of CloudEvents 1.0 in the binary mode of its Kafka binding.';

create function postrider.task_letter_headers(p_event_id uuid, p_letter_id text, p_namespace text, p_task_name text, p_task_uuid uuid, p_time timestamptz)
returns jsonb language sql stable parallel safe as $$
    -- The id of the letter is in its payload as well. That is left out where it is too large for the topic.
    select postrider.task_event_headers(p_event_id, 'postrider.task.dead_lettered.v1', p_namespace, p_task_name, p_task_uuid, p_time)
           operator(pg_catalog.||) pg_catalog.jsonb_build_array(pg_catalog.jsonb_build_array('ce_letterid', p_letter_id))
$$;
comment on function postrider.task_letter_headers(uuid, text, text, text, uuid, timestamptz) is
'Internal. The headers of a task''s dead letter: those of every event about a task, and the id of the letter, an extension attribute of CloudEvents.';

create function postrider.task_start_event(p_task_uuid uuid) returns uuid
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp set enable_seqscan = off set jit = off as $$
declare
    t         record;
    v_id      uuid := gen_random_uuid();
    v_data    jsonb;
    v_payload bytea;
    v_limit   integer := least(900000, postrider.outbox_max_payload_bytes());
begin
    select k.context, k.retry_count, n.name as template, n.version, ns.name as namespace,
           n.configuration->'start_event' as start_event, n.configuration->'max_retries' as max_retries
      into t
      from postrider.tasker_tasks k
      join postrider.tasker_named_tasks n using (named_task_uuid)
      join postrider.tasker_task_namespaces ns using (task_namespace_uuid)
     where k.task_uuid = p_task_uuid;
    if not found then
        raise exception using errcode = 'P0002', message = format('postrider: there is no task %s', coalesce(p_task_uuid::text, 'null'));
    end if;
    if t.start_event->>'topic' is null then
        return null;
    end if;
    v_data := jsonb_build_object('task_uuid', p_task_uuid, 'namespace_name', t.namespace, 'task_name', t.template,
                                 'version', t.version, 'retry_count', t.retry_count, 'context', t.context);
    v_payload := convert_to(v_data::text, 'UTF8');
    if octet_length(v_payload) > v_limit then
        v_payload := convert_to(postrider.task_event_cut(v_data, v_limit)::text, 'UTF8');
    end if;
    insert into postrider.outbox_event (event_id, topic, key, payload, headers, max_attempts, task_uuid)
    values (v_id, t.start_event->>'topic', convert_to(p_task_uuid::text, 'UTF8'), v_payload,
            postrider.task_event_headers(v_id, coalesce(t.start_event->>'type', 'postrider.task.start.v1'), t.namespace, t.template,
                                         p_task_uuid, clock_timestamp()),
            case when jsonb_typeof(t.max_retries) = 'number' then greatest((t.max_retries #>> '{}')::numeric::integer, 1) end, p_task_uuid);
    return v_id;
end $$;
comment on function postrider.task_start_event(uuid) is
'Internal. Writes the event that starts a task''s work, with its context and linked to it, if its template has a start_event; returns its id, null without one. It is given up after the template''s max_retries attempts. A context that would make it larger than 900 kB is left out of it, and it says so (truncated, sizes): workers read it with task_snapshot.';

create function postrider.task_ready_at(p_task_uuid uuid, p_kind text) returns timestamptz
language plpgsql volatile set search_path = pg_catalog, pg_temp set enable_seqscan = off set jit = off as $$
declare
    -- Long ago. The present time of a clock that is ahead would hide the task when that clock is put right.
    v_now constant timestamptz := '2000-01-01 00:00:00+00';
begin
    if p_kind = 'initial' then
        return v_now;
    elsif p_kind not in ('active', 'waiting') then
        return null;
    end if;
    return (select min(case when s.status = 'waiting_for_retry' then s.next_retry_at
                            when s.dependencies <@ coalesce(d.done, '{}') then v_now end)
              from postrider.tasker_workflow_steps s
             cross join (select array_agg(o.step_name) as done from postrider.tasker_workflow_steps o
                          where o.task_uuid = p_task_uuid and o.status in ('complete', 'resolved_manually')) d
             where s.task_uuid = p_task_uuid and s.status in ('pending', 'waiting_for_retry'));
end $$;
comment on function postrider.task_ready_at(uuid, text) is
'Internal. What tasker_tasks.ready_at must be for a task in a state of this kind, by its steps as they are: 2000-01-01 where there is something to do now.';

create function postrider.task_check_json(p_value jsonb, p_what text) returns void
language plpgsql immutable set search_path = pg_catalog, pg_temp as $$
begin
    -- Far below what readers of JSON take, and what of a task goes into a letter goes some levels deeper.
    if p_value @? '$.**{501}' then
        raise exception using errcode = '22023', message = format('postrider: %s is nested more than 500 levels deep; make it flatter', p_what);
    end if;
    -- As it is written out: 1e131000 takes 8 bytes to send and 131,001 to everybody who reads it.
    if octet_length(p_value::text) > 2097152 then
        raise exception using errcode = '22023', message = format('postrider: %s is %s bytes as text, it must be 2097152 at most; keep large things elsewhere and refer to them',
            p_what, octet_length(p_value::text));
    end if;
end $$;
comment on function postrider.task_check_json(jsonb, text) is 'Internal. Raises 22023 for JSON that is nested so deeply, or so large when it is written out, that not everybody could read it.';

create function postrider.task_check_who(p_actor text, p_notes text default null) returns void
language plpgsql immutable set search_path = pg_catalog, pg_temp as $$
begin
    -- Both are copied into the history and the events of the task and of each of its steps.
    if octet_length(p_actor) > 256 then
        raise exception using errcode = '22023', message = format('postrider: the actor is %s bytes, it must be 256 at most; say who it is by a name', octet_length(p_actor));
    end if;
    if octet_length(p_notes) > 4096 then
        raise exception using errcode = '22023', message = format('postrider: the notes are %s bytes, they must be 4096 at most; keep longer text elsewhere and refer to it', octet_length(p_notes));
    end if;
end $$;
comment on function postrider.task_check_who(text, text) is 'Internal. Raises 22023 for an actor of more than 256 bytes, as worker_heartbeat does for a worker, and for notes of more than 4096.';

create function postrider.task_move(p_task_uuid uuid, p_to_state text, p_metadata jsonb default null) returns integer
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp set enable_seqscan = off set jit = off as $$
declare
    t       record;
    v_now   timestamptz := clock_timestamp();
    v_error text := coalesce(p_metadata->>'error_reason', p_metadata->>'reason');
begin
    select k.state, k.sort_key, s.kind,
           s.kind = 'failed' or p_to_state in (coalesce(m.failed_state, ''), coalesce(m.dead_letter_state, '')) as failing into t
      from postrider.tasker_tasks k
      join postrider.tasker_named_tasks n using (named_task_uuid)
      join postrider.tasker_state_machines m using (state_machine_id)
      left join postrider.tasker_machine_states s on s.state_machine_id = n.state_machine_id and s.state = p_to_state
     where k.task_uuid = p_task_uuid
       for update of k;
    if not found then
        raise exception using errcode = 'P0002', message = format('postrider: there is no task %s', coalesce(p_task_uuid::text, 'null'));
    end if;
    if t.kind is null then
        raise exception using errcode = '22023', message = format('postrider: task %s cannot go from %s to %s: its template has no such state',
            p_task_uuid, t.state, coalesce(p_to_state, 'null'));
    end if;
    update postrider.tasker_task_transitions set most_recent = false where task_uuid = p_task_uuid and most_recent;
    insert into postrider.tasker_task_transitions (task_uuid, from_state, to_state, metadata, sort_key, most_recent, created_at)
    values (p_task_uuid, t.state, p_to_state, p_metadata, t.sort_key + 1, true, v_now);
    update postrider.tasker_tasks k
       set state = p_to_state, live = t.kind in ('initial', 'active', 'waiting'), state_entered_at = v_now,
           sort_key = t.sort_key + 1, stale_flagged_at = null, updated_at = v_now,
           ready_at = postrider.task_ready_at(p_task_uuid, t.kind),
           resumed_at = case when t.kind in ('initial', 'active', 'waiting') and not k.live then v_now else k.resumed_at end,
           completed_at = case when t.kind = 'terminal' then v_now end,
           error_reason = case when t.kind in ('failed', 'terminal') then coalesce(case when t.failing then v_error end, k.error_reason) end,
           metadata = case when t.kind not in ('failed', 'terminal') then k.metadata - 'error'
                           when p_metadata ? 'error' then jsonb_set(k.metadata, '{error}', p_metadata->'error')
                           else k.metadata end
     where k.task_uuid = p_task_uuid;
    perform postrider.task_event(p_task_uuid, 'transitioned', jsonb_build_object(
        'from_state', t.state, 'to_state', p_to_state, 'sort_key', t.sort_key + 1, 'occurred_at', v_now,
        'actor', p_metadata->>'actor', 'reason', p_metadata->>'reason', 'metadata', p_metadata));
    return t.sort_key + 1;
end $$;
comment on function postrider.task_move(uuid, text, jsonb) is
'Internal. Puts a task into a state of its machine whether or not the machine allows that from where it is, with its history and its event; returns the number of the transition. Who calls it decides whether it may: see transition_task_state_atomic. In a failed state, and in an end that has the role failed or dead_letter, error_reason comes from p_metadata''s error_reason, else its reason; metadata.error comes from its error; live states clear both.';

create function postrider.transition_task_state_atomic(p_task_uuid uuid, p_from_state text, p_to_state text, p_metadata jsonb default null)
returns boolean language plpgsql volatile security definer set search_path = pg_catalog, pg_temp set enable_seqscan = off set jit = off as $$
declare
    t record;
begin
    select k.state, n.state_machine_id into t
      from postrider.tasker_tasks k
      join postrider.tasker_named_tasks n using (named_task_uuid)
     where k.task_uuid = p_task_uuid
       for update of k;
    if not found then
        raise exception using errcode = 'P0002', message = format('postrider: there is no task %s', coalesce(p_task_uuid::text, 'null')),
            hint = 'It may have been archived: postrider task show.';
    end if;
    if jsonb_typeof(p_metadata) <> 'object' then
        raise exception using errcode = '22023', message = format('postrider: metadata of a transition is a JSON %s, it must be an object', jsonb_typeof(p_metadata)),
            hint = 'Put it under a key: {"reason": "…"}.';
    end if;
    perform postrider.task_check_json(p_metadata, 'metadata of a transition');
    if not exists (select from postrider.tasker_machine_transitions a
                   where a.state_machine_id = t.state_machine_id and a.from_state = p_from_state and a.to_state = p_to_state) then
        raise exception using errcode = '22023',
            message = format('postrider: task %s cannot go from %s to %s: %s', p_task_uuid, coalesce(p_from_state, 'null'),
                             coalesce(p_to_state, 'null'), postrider.task_machine_allows(t.state_machine_id, p_from_state)),
            hint = format('The task is in %s.', t.state);
    end if;
    if t.state <> p_from_state then
        return false;
    end if;
    perform postrider.access_owe(p_service => true);
    perform postrider.task_move(p_task_uuid, p_to_state, p_metadata);
    return true;
end $$;
comment on function postrider.transition_task_state_atomic(uuid, text, text, jsonb) is
'Moves a task from one state to another if it is in the first and its template''s machine allows it; writes the history and the lifecycle event in the same transaction. True if it did; false if the task is not in p_from_state (any more), and nothing is changed. 22023 names both states and what is allowed; P0002 for an unknown task. p_metadata: actor, reason, and what the caller wants to keep, 2 MiB as text at most; the history has all of it, and an event that would be larger than 900 kB leaves it out and says so (truncated, sizes).';

create function postrider.task_machine_allows(p_state_machine_id integer, p_from_state text) returns text
language sql stable set search_path = pg_catalog, pg_temp as $$
    select case
        when not exists (select from postrider.tasker_machine_states s where s.state_machine_id = m.state_machine_id and s.state = p_from_state)
            then format('machine %s has no state %s; it has %s', m.name, coalesce(p_from_state, 'null'),
                        (select string_agg(s.state, ', ' order by s.state) from postrider.tasker_machine_states s
                          where s.state_machine_id = m.state_machine_id))
        else coalesce((select format('machine %s allows from %s: %s', m.name, p_from_state, string_agg(a.to_state, ', ' order by a.to_state))
                         from postrider.tasker_machine_transitions a
                        where a.state_machine_id = m.state_machine_id and a.from_state = p_from_state having count(*) > 0),
                      format('machine %s allows nothing from %s, which is an end', m.name, p_from_state))
        end
    from postrider.tasker_state_machines m where m.state_machine_id = p_state_machine_id
$$;
comment on function postrider.task_machine_allows(integer, text) is 'Internal. What a machine allows from a state, in words for an error.';

create function postrider.task_snapshot(p_task_uuid uuid, p_full boolean default true) returns jsonb
language plpgsql stable security definer set search_path = pg_catalog, pg_temp set enable_seqscan = off set jit = off as $$
declare
    v_task jsonb;
begin
    select jsonb_build_object(
               'task', case when p_full then to_jsonb(k) else jsonb_build_object('task_uuid', k.task_uuid, 'state', k.state,
                           'state_entered_at', k.state_entered_at, 'sort_key', k.sort_key, 'priority', k.priority,
                           'retry_count', k.retry_count, 'error_reason', k.error_reason, 'created_at', k.created_at,
                           'updated_at', k.updated_at) end,
               'template', jsonb_build_object('named_task_uuid', n.named_task_uuid, 'namespace_name', ns.name, 'task_name', n.name,
                           'version', n.version, 'machine', m.name))
      into v_task
      from postrider.tasker_tasks k
      join postrider.tasker_named_tasks n using (named_task_uuid)
      join postrider.tasker_task_namespaces ns using (task_namespace_uuid)
      join postrider.tasker_state_machines m using (state_machine_id)
     where k.task_uuid = p_task_uuid;
    if not found then
        raise exception using errcode = 'P0002', message = format('postrider: there is no task %s', coalesce(p_task_uuid::text, 'null')),
            hint = 'It may have been archived: postrider task show.';
    end if;
    if not p_full then
        return v_task;
    end if;
    return v_task || jsonb_build_object(
        'steps', (select coalesce(jsonb_agg(to_jsonb(s) - 'task_uuid' order by s.position), '[]')
                    from postrider.tasker_workflow_steps s where s.task_uuid = p_task_uuid),
        'transitions', (select coalesce(jsonb_agg(to_jsonb(r) - 'task_uuid' order by r.sort_key), '[]')
                          from postrider.tasker_task_transitions r where r.task_uuid = p_task_uuid));
end $$;
comment on function postrider.task_snapshot(uuid, boolean) is
'A task as one JSON object: task, template (names and version), steps and transitions under the names of their columns; without p_full only what identifies it. P0002 for an unknown task.';

create function postrider.task_snapshot_cut(p_snapshot jsonb, p_hard boolean, p_metadata jsonb default null) returns jsonb
language sql stable set search_path = pg_catalog, pg_temp as $$
    select case when p_hard then (p_snapshot - 'steps' - 'transitions')
                || jsonb_build_object('task', (p_snapshot->'task') - 'context' - 'metadata' - 'error_reason' - 'idempotency_key')
           else p_snapshot || jsonb_build_object('task', (p_snapshot->'task') - 'context')
                || case when p_snapshot ? 'steps' then jsonb_build_object(
               'steps', (select coalesce(jsonb_agg((s.step - 'inputs' - 'results')
                                          || jsonb_build_object('last_error', left(s.step->>'last_error', 1000)) order by s.n), '[]')
                           from jsonb_array_elements(p_snapshot->'steps') with ordinality s(step, n)),
               'transitions', (select coalesce(jsonb_agg(r.transition - 'metadata' order by r.n), '[]')
                                 from jsonb_array_elements(p_snapshot->'transitions') with ordinality r(transition, n))) else '{}' end
           end || jsonb_build_object('truncated', true, 'sizes', jsonb_build_object(
               'context', coalesce(octet_length((p_snapshot->'task'->'context')::text), 0),
               'metadata', coalesce(octet_length(nullif(p_metadata, 'null')::text), 0),
               'steps', (select count(*) from jsonb_array_elements(p_snapshot->'steps')),
               'inputs', (select coalesce(sum(octet_length((s->'inputs')::text)), 0) from jsonb_array_elements(p_snapshot->'steps') s),
               'results', (select coalesce(sum(octet_length((s->'results')::text)), 0) from jsonb_array_elements(p_snapshot->'steps') s),
               'transitions', (select count(*) from jsonb_array_elements(p_snapshot->'transitions'))))
$$;
comment on function postrider.task_snapshot_cut(jsonb, boolean, jsonb) is
'Internal. A snapshot made smaller: without context, inputs, results and the metadata of transitions, and, hard, without steps and transitions too. It says so: truncated, and the sizes (bytes, or how many) of what was there, that of the letter''s own metadata (p_metadata) among them.';

create function postrider.task_letter_payload(p_body jsonb, p_limit integer) returns bytea
language sql stable set search_path = pg_catalog, pg_temp as $$
    select case when octet_length(s.payload) <= p_limit then s.payload
                else convert_to((p_body || jsonb_build_object('metadata', null, 'snapshot',
                         postrider.task_snapshot_cut(p_body->'snapshot', true, p_body->'metadata')))::text, 'UTF8') end
    from (select convert_to((p_body || jsonb_build_object('snapshot',
                     postrider.task_snapshot_cut(p_body->'snapshot', false, p_body->'metadata')))::text, 'UTF8') as payload
          offset 0) s
$$;
comment on function postrider.task_letter_payload(jsonb, integer) is
'Internal. The payload of a task''s dead letter that is larger than p_limit bytes, made smaller: without context, inputs and results, or with what identifies the task alone, and then without metadata of its own, too.';

create function postrider.task_dead_letter(p_task_uuid uuid, p_reason postrider.dlq_reason, p_original_state text, p_sort_key integer,
    p_error_code text, p_error_message text, p_metadata jsonb default null)
returns uuid language plpgsql volatile security definer set search_path = pg_catalog, pg_temp set enable_seqscan = off set jit = off as $$
declare
    t         record;
    v_id      uuid := gen_random_uuid();
    v_letter  text := format('task:%s:%s:%s', p_task_uuid, p_sort_key, p_reason);
    v_now     timestamptz := clock_timestamp();
    v_limit   integer := least(900000, postrider.outbox_max_payload_bytes());
    v_body    jsonb;
    v_payload bytea;
begin
    select n.name as template, n.version, ns.name as namespace, s.dlq_topic, s.include_full_task_snapshot as whole, k.dead_letters into t
      from postrider.tasker_tasks k
      join postrider.tasker_named_tasks n using (named_task_uuid)
      join postrider.tasker_task_namespaces ns using (task_namespace_uuid)
      join postrider.tasker_settings s on s.only_row
     where k.task_uuid = p_task_uuid
       for update of k;
    if not found then
        raise exception using errcode = 'P0002', message = format('postrider: there is no task %s', coalesce(p_task_uuid::text, 'null'));
    end if;
    -- The task itself says which letters were written of it, and not outbox_idempotency_key: keys are forgotten, are of one
    -- topic, and a writer may have used the same.
    if v_letter = any (t.dead_letters) then
        return null;
    end if;
    update postrider.tasker_tasks k set dead_letters = k.dead_letters || v_letter where k.task_uuid = p_task_uuid;
    v_body := jsonb_build_object('letter_id', v_letter, 'task_uuid', p_task_uuid, 'namespace_name', t.namespace, 'task_name', t.template,
        'version', t.version, 'dlq_reason', p_reason, 'original_state', p_original_state, 'dead_lettered_at', v_now,
        'error_code', left(p_error_code, 200), 'error_message', left(p_error_message, 10000), 'metadata', p_metadata,
        'snapshot', postrider.task_snapshot(p_task_uuid, t.whole));
    v_payload := convert_to(v_body::text, 'UTF8');
    if octet_length(v_payload) > v_limit then
        v_payload := postrider.task_letter_payload(v_body, v_limit);
    end if;
    insert into postrider.outbox_event (event_id, kind, topic, key, payload, headers, idempotency_key)
    values (v_id, 'task', t.dlq_topic, convert_to(p_task_uuid::text, 'UTF8'), v_payload,
            postrider.task_letter_headers(v_id, v_letter, t.namespace, t.template, p_task_uuid, v_now), v_letter);
    return v_id;
end $$;
comment on function postrider.task_dead_letter(uuid, postrider.dlq_reason, text, integer, text, text, jsonb) is
'Internal. Writes a task''s dead letter, with its snapshot, into the outbox, bound for the dead-letter topic, and returns its event id. One letter per stay (p_sort_key is the number of the transition by which the stay in p_original_state began) and reason: null if that one was written before. Under 900 kB: what is left out of a larger snapshot it says.';

revoke all on function postrider.task_event(uuid, text, jsonb) from public;
revoke all on function postrider.task_event_cut(jsonb, integer) from public;
revoke all on function postrider.task_check_who(text, text) from public;
revoke all on function postrider.task_event_headers(uuid, text, text, text, uuid, timestamptz) from public;
revoke all on function postrider.task_letter_headers(uuid, text, text, text, uuid, timestamptz) from public;
revoke all on function postrider.task_start_event(uuid) from public;
revoke all on function postrider.task_ready_at(uuid, text) from public;
revoke all on function postrider.task_check_json(jsonb, text) from public;
revoke all on function postrider.task_move(uuid, text, jsonb) from public;
revoke all on function postrider.transition_task_state_atomic(uuid, text, text, jsonb) from public;
revoke all on function postrider.task_machine_allows(integer, text) from public;
revoke all on function postrider.task_snapshot(uuid, boolean) from public;
revoke all on function postrider.task_snapshot_cut(jsonb, boolean, jsonb) from public;
revoke all on function postrider.task_letter_payload(jsonb, integer) from public;
revoke all on function postrider.task_dead_letter(uuid, postrider.dlq_reason, text, integer, text, text, jsonb) from public;
