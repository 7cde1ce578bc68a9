-- What becomes of a task when an outbox event of it cannot be delivered, and how it gets on the road again.

create table postrider.tasker_undelivered_events (
    event_id      uuid not null,
    episode       integer not null,
    task_uuid     uuid not null,
    topic         text not null,
    attempts      integer not null,
    error_class   text,
    error_code    text,
    error_message text,
    sort_key      integer,
    outcome       text not null check (outcome in ('waiting', 'moved', 'refused')),
    detail        text not null,
    noted_at      timestamptz not null default clock_timestamp(),
    tried_at      timestamptz not null default clock_timestamp(),
    constraint tasker_undelivered_events_times check (isfinite(noted_at) and isfinite(tried_at)),
    primary key (event_id, episode)
);
comment on table postrider.tasker_undelivered_events is
'Outbox events of tasks that were given up and whose task was not moved to its dead-letter state in the same transaction: it waits, or cannot be. Where the task was moved at once there is no row. Rows that wait no longer go after 30 days.';
comment on column postrider.tasker_undelivered_events.event_id is 'The event; outbox_event.event_id.';
comment on column postrider.tasker_undelivered_events.episode is 'How many times it had been given up.';
comment on column postrider.tasker_undelivered_events.task_uuid is 'The task that its writer named; it need not exist.';
comment on column postrider.tasker_undelivered_events.topic is 'The topic that the event was bound for.';
comment on column postrider.tasker_undelivered_events.attempts is 'Attempts before it was given up.';
comment on column postrider.tasker_undelivered_events.error_class is 'Class of the last failure.';
comment on column postrider.tasker_undelivered_events.error_code is 'Code of the last failure.';
comment on column postrider.tasker_undelivered_events.error_message is 'Message of the last failure.';
comment on column postrider.tasker_undelivered_events.sort_key is 'Number of the task''s newest transition when the event was given up, as others saw it then (of an event that was skipped by hand: when it was written). A task that began anew by a later one is left alone. Null where it could not be read.';
comment on column postrider.tasker_undelivered_events.outcome is 'waiting: the task was in somebody else''s hands, or moving it failed; it is tried again. moved: that went well later. refused: the task is unknown, has ended, or has no state to go to.';
comment on column postrider.tasker_undelivered_events.detail is 'Why, for people.';
comment on column postrider.tasker_undelivered_events.noted_at is 'When the event was given up.';
comment on column postrider.tasker_undelivered_events.tried_at is 'When moving the task was last tried.';
create index tasker_undelivered_events_waiting on postrider.tasker_undelivered_events (tried_at) where outcome = 'waiting';
comment on index postrider.tasker_undelivered_events_waiting is 'What is to be tried again, the longest ago first.';
create index tasker_undelivered_events_old on postrider.tasker_undelivered_events (noted_at) where outcome <> 'waiting';
comment on index postrider.tasker_undelivered_events_old is 'What may be removed.';
create index tasker_undelivered_events_task on postrider.tasker_undelivered_events (task_uuid);
comment on index postrider.tasker_undelivered_events_task is 'What could not be delivered of a task.';

-- Asked after the task is locked, and not joined with it: the state may have changed while its lock was awaited.
create function postrider.task_state_kind(p_state_machine_id integer, p_state text) returns text
language sql stable set search_path = pg_catalog, pg_temp as $$
    select s.kind from postrider.tasker_machine_states s where s.state_machine_id = p_state_machine_id and s.state = p_state
$$;
comment on function postrider.task_state_kind(integer, text) is 'Internal. The kind of a machine''s state; null if it has no such state.';

create function postrider.task_event_undelivered(
    p_task_uuid uuid, p_event_id uuid, p_episode integer, p_topic text, p_attempts integer, p_class text, p_code text, p_message text,
    p_sort_key integer, p_since timestamptz default null, out outcome text, out detail text)
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp set enable_seqscan = off set jit = off as $$
declare
    t       record;
    v_short text;
begin
    select k.state, m.state_machine_id, m.name as machine, m.initial_state, coalesce(m.dead_letter_state, m.failed_state) as target into t
      from postrider.tasker_tasks k
      join postrider.tasker_named_tasks n using (named_task_uuid)
      join postrider.tasker_state_machines m using (state_machine_id)
     where k.task_uuid = p_task_uuid
       for update of k skip locked;
    if not found then
        if exists (select from postrider.tasker_tasks k where k.task_uuid = p_task_uuid) then
            outcome := 'waiting';
            detail := 'another transaction was at work on the task';
        else
            outcome := 'refused';
            detail := 'there is no such task, or it was archived';
        end if;
        return;
    end if;
    if t.target is null then
        outcome := 'refused';
        detail := format('the machine %s has neither a dead-letter state nor a failed one', t.machine);
    elsif t.state = t.target then
        outcome := 'refused';
        detail := format('the task was in %s already', t.state);
    elsif postrider.task_state_kind(t.state_machine_id, t.state) = 'terminal' then
        outcome := 'refused';
        detail := format('the task had ended: it was %s', t.state);
    elsif exists (select from postrider.tasker_task_transitions r
                  where r.task_uuid = p_task_uuid and r.to_state = t.initial_state and r.sort_key > 1 -- the first is no retry
                    and case when p_sort_key is null then r.created_at > p_since else r.sort_key > p_sort_key end) then
        outcome := 'refused';
        detail := 'the task was retried since';
    else
        v_short := case when p_class = 'record' then 'Maximum retries exceeded'
                        when p_code = 'SKIPPED' then 'Given up by an operator'
                        when p_class in ('infrastructure', 'route') then 'Not deliverable for too long'
                        else 'Not deliverable as it is' end;
        perform postrider.task_move(p_task_uuid, t.target, jsonb_build_object(
            'actor', 'postrider', 'reason', 'event_dead_lettered', 'event_id', p_event_id,
            'error_reason', format('An event of this task to %s could not be delivered: %s after %s %s (%s)', p_topic,
                                   lower(left(v_short, 1)) || substr(v_short, 2), p_attempts,
                                   case when p_attempts = 1 then 'attempt' else 'attempts' end, coalesce(p_code, 'no code')),
            'error', jsonb_build_object('category', 'pipeline_failed', 'reason', v_short, 'retry_count', p_attempts,
                                        'topic', p_topic, 'event_id', p_event_id, 'class', p_class, 'code', p_code,
                                        'message', left(p_message, 2000))));
        -- The event's dead letter is why the task is here: it is not archived before somebody has closed its investigation.
        update postrider.tasker_tasks k set dead_letters = k.dead_letters || format('event:%s:%s', p_event_id, p_episode)
         where k.task_uuid = p_task_uuid;
        outcome := 'moved';
        detail := format('from %s to %s', t.state, t.target);
    end if;
end $$;
comment on function postrider.task_event_undelivered(uuid, uuid, integer, text, integer, text, text, text, integer, timestamptz) is
'Internal. Moves a task whose event was given up to the dead-letter state of its machine, or to its failed state, from whatever state that is no end, with error_reason and metadata.error, and adds the event''s dead letter to those of the task. It waits for nobody. outcome: moved; waiting, somebody else has the task''s row lock; refused, it cannot be moved; detail says why. A task that began anew by a transition after the one with the number p_sort_key (after p_since, where that is null) is left alone.';

create function postrider.task_event_note(p_id bigint, p_sort_key integer, p_outcome text, p_detail text) returns void
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp set enable_seqscan = off set jit = off as $$
begin
    insert into postrider.tasker_undelivered_events (
        event_id, episode, task_uuid, topic, attempts, error_class, error_code, error_message, sort_key, outcome, detail)
    select o.event_id, o.episode, o.task_uuid, o.topic, o.attempts, o.last_error_class, o.last_error_code, o.last_error, p_sort_key, p_outcome, p_detail
      from postrider.outbox_event o where o.id = p_id and o.task_uuid is not null and o.state::text = 'exhausted'
    on conflict (event_id, episode) do nothing;
end $$;
comment on function postrider.task_event_note(bigint, integer, text, text) is
'Internal. Notes an outbox event (its id) that was given up and did not move its task; one that was noted before, was not given up, or is of no task is passed over.';

create function postrider.task_event_given_up(p_id bigint, p_sort_key integer) returns boolean
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp set enable_seqscan = off set jit = off as $$
declare
    e record;
    r record;
begin
    select o.event_id, o.episode, o.task_uuid, o.topic, o.attempts, o.last_error_class, o.last_error_code, o.last_error into e
      from postrider.outbox_event o where o.id = p_id and o.task_uuid is not null and o.state::text = 'exhausted';
    if not found then
        return false;
    end if;
    select u.outcome, u.detail into r
      from postrider.task_event_undelivered(e.task_uuid, e.event_id, e.episode, e.topic, e.attempts, e.last_error_class, e.last_error_code,
                                            e.last_error, p_sort_key) u;
    if r.outcome <> 'moved' then
        perform postrider.task_event_note(p_id, p_sort_key, r.outcome, r.detail);
    end if;
    return r.outcome = 'moved';
end $$;
comment on function postrider.task_event_given_up(bigint, integer) is
'Internal. Moves the task of an outbox event (its id) that was given up, or notes that it was not moved; returns whether it was. p_sort_key as for task_event_undelivered.';

create or replace function postrider.task_events_dead_lettered(p_event_ids bigint[]) returns integer
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp set lock_timeout = '500ms'
set enable_seqscan = off set jit = off as $$
declare
    v_ids    bigint[] := coalesce(p_event_ids, '{}');
    v_keys   integer[] := '{}';
    v_id     bigint;
    v_failed text;
    v_locked boolean := false;
    v_moved  integer := 0;
begin
    -- All together, for savepoints cost: everybody who looks at rows of a transaction with more than 64 of them pays.
    begin
        -- How far each task has come, as others see it, before any lock is asked for: a retry that is not committed yet is
        -- then later than the giving up, whoever ends first. Of what an operator skips, how far it had come when the event
        -- was written: who retried the task since has seen to it that another takes its place.
        foreach v_id in array v_ids loop
            v_keys := array_append(v_keys, (
                select case when o.last_error_code = 'SKIPPED' then coalesce((
                           select max(r.sort_key) from postrider.tasker_task_transitions r
                            where r.task_uuid = o.task_uuid and r.created_at <= o.created_at), 0)
                       else (select r.sort_key from postrider.tasker_task_transitions r where r.task_uuid = o.task_uuid and r.most_recent) end
                  from postrider.outbox_event o where o.id = v_id and o.task_uuid is not null));
        end loop;
        for i in 1 .. cardinality(v_ids) loop
            v_moved := v_moved + postrider.task_event_given_up(v_ids[i], v_keys[i])::integer;
        end loop;
        return v_moved;
    exception
        when lock_not_available then
            v_locked := true;
            v_failed := left(sqlerrm, 1000);
        when others then -- whatever is wrong with a task, the events' way to their dead letters is free
            null;
    end;
    -- One of them failed: each by itself, and once somebody has locked a table that long, the rest is for later.
    v_moved := 0;
    for i in 1 .. cardinality(v_ids) loop
        if not v_locked then
            begin
                v_moved := v_moved + postrider.task_event_given_up(v_ids[i], v_keys[i])::integer;
                continue;
            exception
                when lock_not_available then
                    v_locked := true;
                    v_failed := left(sqlerrm, 1000);
                when others then
                    v_failed := left(sqlerrm, 1000);
            end;
        end if;
        perform postrider.task_event_note(v_ids[i], v_keys[i], 'waiting', v_failed);
    end loop;
    return v_moved;
end $$;

create function postrider.task_events_catch_up(p_limit integer default 100)
returns table (moved integer, refused integer, waiting integer)
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp set lock_timeout = '500ms'
set enable_seqscan = off set jit = off as $$
declare
    u record;
    r record;
    v_locked boolean := false;
begin
    moved := 0;
    refused := 0;
    waiting := 0;
    for u in select n.* from postrider.tasker_undelivered_events n where n.outcome = 'waiting'
             order by n.tried_at limit p_limit for update skip locked loop
        begin
            select d.outcome, d.detail into r
              from postrider.task_event_undelivered(u.task_uuid, u.event_id, u.episode, u.topic, u.attempts, u.error_class, u.error_code, u.error_message,
                                                    u.sort_key, u.noted_at) d;
        exception
            when lock_not_available then -- of a table: the others would wait as long
                v_locked := true;
                select 'waiting' as outcome, left(sqlerrm, 1000) as detail into r;
            when others then
                select 'waiting' as outcome, left(sqlerrm, 1000) as detail into r;
        end;
        update postrider.tasker_undelivered_events n set outcome = r.outcome, detail = r.detail, tried_at = clock_timestamp()
         where n.event_id = u.event_id and n.episode = u.episode;
        moved := moved + (r.outcome = 'moved')::integer;
        refused := refused + (r.outcome = 'refused')::integer;
        waiting := waiting + (r.outcome = 'waiting')::integer;
        exit when v_locked;
    end loop;
    delete from postrider.tasker_undelivered_events n
     where (n.event_id, n.episode) in (
        select o.event_id, o.episode from postrider.tasker_undelivered_events o
         where o.outcome <> 'waiting' and o.noted_at < now() - interval '30 days'
         order by o.noted_at limit p_limit for update skip locked);
    return next;
end $$;
comment on function postrider.task_events_catch_up(integer) is
'Tries again to move tasks whose events were given up while somebody else was at work on them, the longest ago first, and removes notes older than 30 days, up to p_limit each. Defaults to 100. Returns what became of them.';

create function postrider.retry_task(p_task_uuid uuid, p_actor text default null) returns uuid
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp set enable_seqscan = off set jit = off as $$
declare
    t       record;
    v_event uuid;
begin
    perform postrider.task_check_who(p_actor);
    select k.state, m.initial_state, m.retryable_states, m.name as machine into t
      from postrider.tasker_tasks k
      join postrider.tasker_named_tasks n using (named_task_uuid)
      join postrider.tasker_state_machines m using (state_machine_id)
     where k.task_uuid = p_task_uuid
       for update of k;
    if not found then
        raise exception using errcode = 'P0002', message = format('postrider: there is no task %s', coalesce(p_task_uuid::text, 'null')),
            hint = 'An archived task cannot be retried: create a new one.';
    end if;
    if not t.state = any (t.retryable_states) then
        raise exception using errcode = '22023',
            message = format('postrider: task %s is %s and cannot be retried: machine %s retries from %s', p_task_uuid, t.state, t.machine,
                             coalesce(nullif(array_to_string(t.retryable_states, ', '), ''), 'no state')),
            hint = 'To go on with single steps: postrider task step.';
    end if;
    perform postrider.access_owe();
    perform postrider.steps_set(p_task_uuid, array(
        select s.workflow_step_uuid from postrider.tasker_workflow_steps s
         where s.task_uuid = p_task_uuid and s.status not in ('complete', 'resolved_manually')
           and (s.status <> 'pending' or s.retry_count > 0 or s.last_error is not null)), 'pending', true,
        jsonb_build_object('action', 'retry_task', 'actor', p_actor, 'reason', 'the task is retried'));
    update postrider.tasker_tasks k set retry_count = k.retry_count + 1 where k.task_uuid = p_task_uuid;
    perform postrider.task_move(p_task_uuid, t.initial_state, jsonb_build_object('actor', p_actor, 'reason', 'retry'));
    v_event := postrider.task_start_event(p_task_uuid);
    if v_event is null then
        v_event := postrider.task_event(p_task_uuid, 'retry_queued', (
            select jsonb_build_object('from_state', t.state, 'to_state', k.state, 'sort_key', k.sort_key, 'retry_count', k.retry_count,
                                      'actor', p_actor, 'reason', 'retry', 'metadata', null)
              from postrider.tasker_tasks k where k.task_uuid = p_task_uuid));
    end if;
    return v_event;
end $$;
comment on function postrider.retry_task(uuid, text) is
'Puts a task back to the beginning, from a retryable state of its machine: its error is cleared, steps that are not done are pending again with all their retries, and the template''s start_event is written again or, where it has none, the event postrider.task.retry_queued.v1; all in the caller''s transaction. Returns the id of that event. 22023 names the state and those that can be retried, or says that p_actor has more than 256 bytes; P0002 for an unknown task.';

create function postrider.dead_letter_task(p_task_uuid uuid, p_reason text, p_actor text default null) returns uuid
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp set enable_seqscan = off set jit = off as $$
declare
    t         record;
    v_kind    text;
    v_pending uuid;
    v_letter  uuid;
    v_letter_id text;
    v_reason  text := nullif(btrim(p_reason, E' \t\r\n'), '');
begin
    perform postrider.task_check_who(p_actor);
    if v_reason is null or octet_length(v_reason) > 4096 then
        raise exception using errcode = '22023', message = 'postrider: a reason of 1 to 4096 bytes is needed to dead-letter a task by hand',
            hint = 'Say why, to whoever investigates; keep longer text elsewhere and refer to it.';
    end if;
    select k.state, k.sort_key, m.state_machine_id, coalesce(m.dead_letter_state, m.failed_state) as target,
           k.state = any (m.retryable_states) as retryable into t
      from postrider.tasker_tasks k
      join postrider.tasker_named_tasks n using (named_task_uuid)
      join postrider.tasker_state_machines m using (state_machine_id)
     where k.task_uuid = p_task_uuid
       for update of k;
    if not found then
        raise exception using errcode = 'P0002', message = format('postrider: there is no task %s', coalesce(p_task_uuid::text, 'null')),
            hint = 'An archived task cannot be dead-lettered.';
    end if;
    v_letter_id := format('task:%s:%s:manual_dlq', p_task_uuid, t.sort_key);
    v_kind := postrider.task_state_kind(t.state_machine_id, t.state);
    if v_kind = 'terminal' then
        raise exception using errcode = '55000',
            message = format('postrider: task %s has ended, it is %s: there is nothing to dead-letter', p_task_uuid, t.state),
            hint = 'What came of it is in its history: postrider task transitions.';
    end if;
    select d.dlq_entry_uuid into v_pending from postrider.dlq_entry d
     where d.subject_type = 'task' and d.subject_id = p_task_uuid::text and d.resolution_status = 'pending';
    if found then
        raise exception using errcode = '55000',
            message = format('postrider: task %s has a pending investigation already, %s', p_task_uuid, v_pending),
            hint = 'Go on with that one, or close it first.';
    end if;
    -- What is written and not yet recorded becomes an investigation of the task within seconds; that of an event is the
    -- event's. Of one by hand in this stay more is said below.
    if exists (select from postrider.tasker_tasks k cross join unnest(k.dead_letters) w(letter_id)
                where k.task_uuid = p_task_uuid and w.letter_id like 'task:%' and w.letter_id <> v_letter_id
                  and not exists (select from postrider.dlq_letter l where l.letter_id = w.letter_id)) then
        raise exception using errcode = '55000',
            message = format('postrider: task %s has a dead letter on its way already, which the collector has not recorded yet', p_task_uuid),
            hint = 'Its investigation will be in postrider dlq list. If it does not come, see postrider outbox status and whether a collector runs.';
    end if;
    v_letter := postrider.task_dead_letter(p_task_uuid, 'manual_dlq', t.state, t.sort_key, 'MANUAL_DLQ', v_reason,
                                           jsonb_build_object('actor', p_actor));
    if v_letter is null then
        raise exception using errcode = '55000',
            message = format('postrider: task %s was dead-lettered by hand before, since it is %s', p_task_uuid, t.state),
            hint = case
                when not exists (select from postrider.dlq_letter l where l.letter_id = v_letter_id)
                    then 'Its letter is on its way, and will be in postrider dlq list. If it does not come, see postrider outbox status and whether a collector runs.'
                when t.retryable then 'Its investigation was closed. One more can be opened once it has moved: postrider task retry, or an action on one of its steps.'
                else 'Its investigation was closed. One more can be opened once it has moved: postrider task step, or postrider task transition.' end;
    end if;
    perform postrider.access_owe();
    if t.target is not null and t.target <> t.state and v_kind <> 'failed' then
        perform postrider.task_move(p_task_uuid, t.target, jsonb_build_object(
            'actor', p_actor, 'reason', 'manual_dlq', 'error_reason', v_reason,
            'error', jsonb_build_object('category', 'manual_dlq', 'reason', v_reason, 'retry_count', 0)));
    end if;
    return v_letter;
end $$;
comment on function postrider.dead_letter_task(uuid, text, text) is
'Dead-letters a task by hand, with the reason manual_dlq: writes its dead letter, with the task as it was, and moves it to the dead-letter or failed state of its machine unless it failed before. Returns the id of the letter''s event. 55000 for a task that has ended, has a pending investigation or a letter that is on its way to become one, or was dead-lettered by hand since it is in its state; 22023 for a p_actor of more than 256 bytes and a p_reason that has not 1 to 4096; P0002 for an unknown one.';

create function postrider.archive_on_read(p_task_uuid uuid, p_archive_after interval default '7 days') returns boolean
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp set enable_seqscan = off set jit = off as $$
declare
    v_archived text;
begin
    if current_setting('transaction_read_only') = 'on' then
        return false;
    end if;
    -- Asked without a lock first: most tasks that are read are not to be archived.
    select m.archived_state into v_archived
      from postrider.tasker_tasks k
      join postrider.tasker_named_tasks n using (named_task_uuid)
      join postrider.tasker_state_machines m using (state_machine_id)
     where k.task_uuid = p_task_uuid and k.state = coalesce(m.dead_letter_state, m.failed_state) and m.archived_state is not null
       and k.updated_at < now() - p_archive_after and postrider.dlq_task_closed(k.task_uuid, k.dead_letters);
    if not found then
        return false;
    end if;
    perform from postrider.tasker_tasks k
      join postrider.tasker_named_tasks n using (named_task_uuid)
      join postrider.tasker_state_machines m using (state_machine_id)
     where k.task_uuid = p_task_uuid and k.state = coalesce(m.dead_letter_state, m.failed_state) and k.updated_at < now() - p_archive_after
       and postrider.dlq_task_closed(k.task_uuid, k.dead_letters)
       for update of k skip locked;
    if not found then
        return false;
    end if;
    perform postrider.task_move(p_task_uuid, v_archived, jsonb_build_object('actor', 'postrider', 'reason', 'archived_on_read'));
    return true;
end $$;
comment on function postrider.archive_on_read(uuid, interval) is
'Moves a task to the archived state of its machine if it has been in the dead-letter state (the failed one, of a machine without) without a change for p_archive_after, 7 days by default, and the machine has both; returns whether it did. One with a pending investigation, of its own or of an event that moved it there, stays, and so does one of which a dead letter is not recorded yet: somebody may yet retry it. It waits for nobody, and does nothing in a transaction that is read-only.';

create function postrider.read_task(p_task_uuid uuid) returns jsonb
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp as $$
begin
    perform postrider.archive_on_read(p_task_uuid);
    return postrider.task_snapshot(p_task_uuid, true);
end $$;
comment on function postrider.read_task(uuid) is
'A task with its template, steps and transitions, see task_snapshot; first it is archived if that is due, see archive_on_read. P0002 for an unknown task.';

-- Events of a task are given up after as many attempts as its template allows. In plpgsql, which keeps the plan; whoever
-- asks has switched sequential scans off.
create or replace function postrider.task_max_attempts(p_task_uuid uuid) returns integer
language plpgsql stable set search_path = pg_catalog, pg_temp as $$
begin
    return (select greatest((n.configuration->>'max_retries')::numeric::integer, 1)
              from postrider.tasker_tasks k join postrider.tasker_named_tasks n using (named_task_uuid)
             where k.task_uuid = p_task_uuid and jsonb_typeof(n.configuration->'max_retries') = 'number');
end $$;

revoke all on function postrider.task_state_kind(integer, text) from public;
revoke all on function postrider.task_event_undelivered(uuid, uuid, integer, text, integer, text, text, text, integer, timestamptz) from public;
revoke all on function postrider.task_event_note(bigint, integer, text, text) from public;
revoke all on function postrider.task_event_given_up(bigint, integer) from public;
revoke all on function postrider.task_events_catch_up(integer) from public;
revoke all on function postrider.retry_task(uuid, text) from public;
revoke all on function postrider.dead_letter_task(uuid, text, text) from public;
revoke all on function postrider.archive_on_read(uuid, interval) from public;
revoke all on function postrider.read_task(uuid) from public;
