-- What people change at the desk, by functions with the owner's rights, so that nobody who operates needs the right to
-- write investigations, groups, operations or keys in any other way. They know what may be changed when, and a
-- transaction of an operator that calls one owes the audit log a row (access_owe).

create function postrider.dlq_under_way(p_entries uuid[]) returns setof uuid
language sql stable security definer set search_path = pg_catalog, pg_temp
set enable_seqscan = off set enable_hashjoin = off set enable_mergejoin = off as $$
    select w.id
    from unnest(p_entries) as w(id)
    cross join lateral (
        select r.outcome, r.event_id, r.episode from postrider.dlq_replay r
        where r.dlq_entry_uuid = w.id order by r.generation desc limit 1) r
    where r.outcome is null
       or r.outcome = 'came_back'
          and not exists (select from postrider.dlq_letter b where b.letter_id = 'event:' || r.event_id || ':' || (r.episode + 1))
$$;
comment on function postrider.dlq_under_way(uuid[]) is
'Those of the investigations of which a redrive is on its way: its event has not ended, or was given up again and the letter of that has not arrived.';

create function postrider.dlq_note_redrives(
    p_operation uuid, p_actor text, p_entries uuid[], p_letter_ids text[], p_outbox_ids bigint[], p_event_ids uuid[],
    p_in_place boolean[], p_episodes integer[], p_targets text[], p_edited boolean[])
returns void language plpgsql volatile security definer set search_path = pg_catalog, pg_temp
set enable_seqscan = off set enable_bitmapscan = off set enable_hashjoin = off set enable_mergejoin = off set jit = off as $$
declare
    wrong bigint;
    named uuid;
begin
    if coalesce(cardinality(p_entries), 0) = 0 then
        return;
    end if;
    perform postrider.access_owe();
    -- Each thing is looked up by its key, as outbox_resend does. A new event says itself which redrive it is.
    with given as materialized (
        select w.*, n.generation, n.replay_id,
               coalesce(e.resolution_status = 'pending' and l.dlq_entry_uuid = w.entry
                        and (r.generation is null or r.outcome = 'delivered'
                             or r.outcome = 'came_back' and (select true from postrider.dlq_letter b
                                   where b.letter_id = 'event:' || r.event_id || ':' || (r.episode + 1) limit 1))
                        and case when w.in_place then l.outbox_id = o.id and l.event_id = o.event_id and o.state = 'pending' and o.updated_at = now()
                                 else o.headers @> jsonb_build_array(jsonb_build_array('replay_id', n.replay_id)) end, false) as sent
        from unnest(p_entries, p_letter_ids, p_outbox_ids, p_event_ids, p_in_place, p_episodes, p_targets, p_edited)
            as w(entry, letter_id, outbox_id, event_id, in_place, episode, target, edited)
        left join lateral (
            select e.resolution_status from postrider.dlq_entry e where e.dlq_entry_uuid = w.entry limit 1) e on true
        left join lateral (
            select r.generation, r.outcome, r.event_id, r.episode
            from postrider.dlq_replay r where r.dlq_entry_uuid = w.entry order by r.generation desc limit 1) r on true
        left join lateral (
            select l.dlq_entry_uuid, l.outbox_id, l.event_id from postrider.dlq_letter l where l.letter_id = w.letter_id limit 1) l on true
        left join lateral (
            select o.id, o.event_id, o.state, o.updated_at, o.headers
            from postrider.outbox_event o where o.id = w.outbox_id and o.event_id = w.event_id limit 1) o on true
        cross join lateral (
            select coalesce(r.generation, 0) + 1 as generation, w.entry::text || ':' || (coalesce(r.generation, 0) + 1) as replay_id) n
    ), noted as (
        insert into postrider.dlq_replay (replay_id, dlq_entry_uuid, generation, dlq_operation_uuid, letter_id, outbox_id, event_id,
                                          in_place, episode, target, edited, actor)
        select g.replay_id, g.entry, g.generation, p_operation, g.letter_id, g.outbox_id, g.event_id, g.in_place, g.episode, g.target, g.edited, p_actor
        from given g where g.sent
    )
    select count(*), (array_agg(g.entry))[1] into wrong, named from given g where not g.sent;
    if wrong > 0 then
        raise exception using errcode = '55000', message = format('postrider: no redrive of investigation %s can be noted', coalesce(named::text, 'null')),
            detail = 'only one of a pending investigation is, of which none is on its way: an event that outbox_resend wrote for it, or one that this transaction put back in its place',
            hint = 'postrider dlq requeue sends messages again, and notes it.';
    end if;
end $$;
comment on function postrider.dlq_note_redrives(uuid, text, uuid[], text[], bigint[], uuid[], boolean[], integer[], text[], boolean[]) is
'Notes redrives: of each its investigation, letter, event (id and event id), whether that was put back in its place, how often it had been given up, its topic and whether the message was changed; of all the operation, if one made them, and who asked. Each is the next generation of its investigation. All of them are noted or none: the investigation must be pending, none of it on its way, the letter one of it, and the event what outbox_resend wrote for it, or the letter''s own, put back in this transaction.';

create function postrider.dlq_change_entry(
    p_entry uuid, p_status text, p_notes text, p_resolved_by text, p_metadata jsonb, p_assignee text, p_actor text)
returns void language plpgsql volatile security definer set search_path = pg_catalog, pg_temp as $$
declare
    stands text;
    why    text;
begin
    select e.resolution_status::text into stands from postrider.dlq_entry e where e.dlq_entry_uuid = p_entry for no key update;
    if not found then
        raise exception using errcode = 'P0002', message = format('postrider: there is no investigation %s', coalesce(p_entry::text, 'null'));
    end if;
    if p_status is not null and stands <> 'pending' then
        why := format('it is %s already, and a closed one stays as it is; when the same comes back, a new one is opened', stands);
    elsif p_status = 'pending' then
        why := 'pending is where it stands, and no outcome';
    elsif p_status is not null and exists (select from postrider.dlq_under_way(array[p_entry])) then
        why := 'a redrive of it is on its way, and nobody knows what it came to';
    end if;
    if why is not null then
        raise exception using errcode = '55000', message = format('postrider: investigation %s cannot be closed', p_entry), detail = why;
    end if;
    perform postrider.access_owe();
    -- Closing says who did it, the one who asks unless somebody else is named.
    update postrider.dlq_entry e
    set resolution_status = coalesce(p_status::postrider.dlq_resolution_status, e.resolution_status),
        resolution_timestamp = case when p_status is not null then now() else e.resolution_timestamp end,
        resolution_notes = coalesce(p_notes, e.resolution_notes),
        resolved_by = coalesce(p_resolved_by, case when p_status is not null then p_actor end, e.resolved_by),
        metadata = case when coalesce(p_metadata, 'null') = 'null' then e.metadata else nullif(p_metadata, '{}') end,
        assignee = case when p_assignee is null then e.assignee else nullif(p_assignee, '') end,
        updated_at = now()
    where e.dlq_entry_uuid = p_entry;
end $$;
comment on function postrider.dlq_change_entry(uuid, text, text, text, jsonb, text, text) is
'Writes into an investigation, and closes it where a status is given: a pending one of which no redrive is on its way. What is null stays, metadata of JSON null, too; an empty object as metadata and an empty assignee take away what is there. The keys that its events halt are the caller''s to release.';

create function postrider.dlq_purge_entries(p_entries uuid[]) returns bigint
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp
set enable_seqscan = off set enable_hashjoin = off set enable_mergejoin = off as $$
declare
    gone bigint;
begin
    perform postrider.access_owe();
    delete from postrider.dlq_entry e where e.dlq_entry_uuid = any (p_entries);
    get diagnostics gone = row_count;
    return gone;
end $$;
comment on function postrider.dlq_purge_entries(uuid[]) is
'Removes investigations for good, and returns how many. Their letters stay. The keys that their events halt are the caller''s to look after.';

create function postrider.dlq_resolve_group(p_group uuid, p_until timestamptz, p_limit integer, p_status text, p_notes text, p_by text)
returns setof uuid language plpgsql volatile security definer set search_path = pg_catalog, pg_temp
set enable_seqscan = off set enable_hashjoin = off set enable_mergejoin = off as $$
declare
    held    uuid[];
    closing uuid[];
begin
    if p_status is null or p_status = 'pending' then
        raise exception using errcode = '22023', message = 'postrider: the status must say what they came to, and pending does not';
    end if;
    -- The oldest, in the order of the group's index; locked in an order that purging keeps.
    with meant as (
        select e.dlq_entry_uuid from postrider.dlq_entry e
        where e.dlq_group_uuid = p_group and e.resolution_status = 'pending' and (e.created_at at time zone 'UTC') <= (p_until at time zone 'UTC')
          and (select r.outcome is null
                      or r.outcome = 'came_back' and (select true from postrider.dlq_letter b
                             where b.letter_id = 'event:' || r.event_id || ':' || (r.episode + 1) limit 1) is null
               from postrider.dlq_replay r
               where r.dlq_entry_uuid = e.dlq_entry_uuid order by r.generation desc limit 1) is not true
        order by (e.created_at at time zone 'UTC'), e.dlq_entry_uuid limit p_limit
    ), locked as materialized (
        select e.dlq_entry_uuid from postrider.dlq_entry e join meant m using (dlq_entry_uuid)
        where e.resolution_status = 'pending' order by e.dlq_entry_uuid for no key update of e
    )
    select array_agg(l.dlq_entry_uuid) into held from locked l;
    -- With a snapshot taken after the locks: somebody may have sent one again meanwhile.
    select array_agg(o.id) into closing
    from (select h.id from unnest(held) h(id) except select u.id from postrider.dlq_under_way(held) u(id)) o;
    if closing is null then
        return;
    end if;
    perform postrider.access_owe();
    return query
    update postrider.dlq_entry e
    set resolution_status = p_status::postrider.dlq_resolution_status, resolution_timestamp = now(), updated_at = now(),
        resolution_notes = coalesce(nullif(p_notes, ''), e.resolution_notes), resolved_by = p_by
    from unnest(closing) as c(id) where e.dlq_entry_uuid = c.id
    returning e.dlq_entry_uuid;
end $$;
comment on function postrider.dlq_resolve_group(uuid, timestamptz, integer, text, text, text) is
'Closes the oldest pending investigations of a group that were opened until a time, and returns them. Those of which a redrive is on its way are left. The keys that their events halt are the caller''s to release.';

create function postrider.dlq_lock_group(p_group uuid) returns table (state text, pending bigint)
language sql volatile security definer set search_path = pg_catalog, pg_temp as $$
    select postrider.dlq_group_state(g.state, g.muted_until, g.created_at, g.pending), g.pending
    from postrider.dlq_group g where g.dlq_group_uuid = p_group for no key update
$$;
comment on function postrider.dlq_lock_group(uuid) is 'Locks a group, and says where it stands.';

create function postrider.dlq_change_group(p_group uuid, p_note text, p_assignee text, p_state text, p_muted_until timestamptz) returns void
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp as $$
begin
    perform postrider.access_owe();
    update postrider.dlq_group g
    set note = case when p_note is null then g.note else nullif(p_note, '') end,
        assignee = case when p_assignee is null then g.assignee else nullif(p_assignee, '') end,
        state = p_state, muted_until = p_muted_until, updated_at = now()
    where g.dlq_group_uuid = p_group;
end $$;
comment on function postrider.dlq_change_group(uuid, text, text, text, timestamptz) is
'Writes about a group. What is null of note and assignee stays, what is empty is taken away. The counters are the triggers''.';

create function postrider.dlq_insert_operation(p_kind text, p_name text, p_reason text, p_actor text, p_scope jsonb, p_options jsonb)
returns table (dlq_operation_uuid uuid, created_at timestamptz)
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp as $$
#variable_conflict use_column
begin
    if jsonb_typeof(p_scope) is distinct from 'object' or jsonb_typeof(p_options) is distinct from 'object' then
        raise exception using errcode = '22023', message = 'postrider: scope and options of an operation must be JSON objects';
    end if;
    perform postrider.access_owe();
    return query
    insert into postrider.dlq_operation as o (kind, name, reason, actor, state, scope, options)
    values (p_kind, p_name, nullif(p_reason, ''), p_actor, 'planned', p_scope, p_options)
    returning o.dlq_operation_uuid, o.created_at;
end $$;
comment on function postrider.dlq_insert_operation(text, text, text, text, jsonb, jsonb) is
'Writes an operation that is planned, without a scope: dlq_freeze_operation and dlq_plan_operation follow in the same transaction.';

create function postrider.dlq_freeze_operation(
    p_operation uuid, p_until timestamptz, p_entries uuid[], p_group uuid, p_reason text, p_subject_type text, p_subject_id text, p_topic text,
    p_error_code text, p_assignee text, p_message text, p_from timestamptz, p_to timestamptz, p_status text)
returns bigint language plpgsql volatile security definer set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_custom_plan as $$
declare
    frozen bigint;
begin
    -- Only of one that this transaction planned: later nobody changes what it is about.
    if not exists (select from postrider.dlq_operation o where o.dlq_operation_uuid = p_operation and o.state = 'planned' and o.created_at = now()) then
        raise exception using errcode = '55000', message = format('postrider: the scope of operation %s cannot be changed', coalesce(p_operation::text, 'null')),
            detail = 'it is frozen in the transaction that plans the operation';
    end if;
    -- In the order in which the messages were written, as far as that is known.
    insert into postrider.dlq_operation_item (dlq_operation_uuid, item, dlq_entry_uuid)
    select p_operation, row_number() over (order by coalesce(l.origin_topic, ''), coalesce(l.outbox_id, 0), coalesce(l.origin_partition, 0),
                                                    coalesce(l.origin_offset, 0), l.dlq_topic, l.dlq_partition, l.dlq_offset, e.dlq_entry_uuid),
           e.dlq_entry_uuid
    from postrider.dlq_entry e
    left join lateral (
        select l.* from postrider.dlq_letter l where l.dlq_entry_uuid = e.dlq_entry_uuid
        order by coalesce(l.episode, 0) desc, l.recorded_at desc, l.dlq_partition desc, l.dlq_offset desc limit 1) l on true
    where case when p_entries is not null then e.dlq_entry_uuid = any (p_entries)
               else e.resolution_status = p_status::postrider.dlq_resolution_status and e.created_at <= p_until
                    and (p_group is null or e.dlq_group_uuid = p_group)
                    and (p_reason = '' or e.dlq_reason = nullif(p_reason, '')::postrider.dlq_reason)
                    and (p_subject_type = '' or e.subject_type = p_subject_type)
                    and (p_subject_id = '' or e.subject_id = p_subject_id)
                    and (p_topic = '' or e.topic = p_topic)
                    and (p_error_code = '' or e.error_code = p_error_code)
                    and (p_assignee = '' or e.assignee = p_assignee)
                    and (p_message = '' or e.error_message ilike p_message)
                    and (p_from is null or e.created_at >= p_from) and (p_to is null or e.created_at <= p_to)
          end;
    get diagnostics frozen = row_count;
    return frozen;
end $$;
comment on function postrider.dlq_freeze_operation(uuid, timestamptz, uuid[], uuid, text, text, text, text, text, text, text, timestamptz, timestamptz, text) is
'Writes the scope of an operation that the same transaction planned, and returns how many investigations that are: those named, as they are, or those of a status, opened until a time, that fit. An empty text and a null select nothing away.';

create function postrider.dlq_plan_operation(p_operation uuid, p_halting bigint[]) returns void
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_custom_plan as $$
begin
    with halting as (
        select distinct h.id from unnest(p_halting) h(id)
    ), scope as (
        select e.*, l.key, l.dialect, l.headers, l.payload_bytes, h.id is not null as in_place, coalesce(l.origin_topic, e.topic, '') as origin,
               exists (select from postrider.dlq_replay r where r.dlq_entry_uuid = e.dlq_entry_uuid) as redriven
        from postrider.dlq_operation_item i
        join postrider.dlq_entry e on e.dlq_entry_uuid = i.dlq_entry_uuid
        left join lateral (
            select l.* from postrider.dlq_letter l where l.dlq_entry_uuid = e.dlq_entry_uuid
            order by coalesce(l.episode, 0) desc, l.recorded_at desc limit 1) l on true
        left join halting h on h.id = l.outbox_id
        where i.dlq_operation_uuid = p_operation
    ), counted as (
        -- Of all items: one whose investigation was purged since is treated, too, and skipped.
        select (select count(*) from postrider.dlq_operation_item i where i.dlq_operation_uuid = p_operation) as items, coalesce(sum(payload_bytes), 0)::bigint as bytes,
               count(distinct (origin, key)) filter (where key is not null and not in_place) as keys, -- in its place nothing is overtaken
               count(*) filter (where redriven) as redriven, count(*) filter (where subject_type = 'task') as tasks,
               count(*) filter (where dialect = 'postrider' and jsonb_path_exists(headers, 'strict $[*] ? (@[0] == "postrider-invalid-headers")')) as unreadable
        from scope
    ), topics as (
        select coalesce(jsonb_object_agg(origin, n), '{}') as topics from (select origin, count(*) as n from scope group by origin) t
    )
    update postrider.dlq_operation p
    set items = c.items,
        plan = jsonb_build_object('items', c.items, 'bytes', c.bytes, 'keys', c.keys, 'redriven', c.redriven, 'tasks', c.tasks,
                                  'topics', t.topics, 'halting', (select count(*) from halting), 'unreadable_headers', c.unreadable)
    from counted c, topics t where p.dlq_operation_uuid = p_operation and p.state = 'planned' and p.created_at = now();
    if not found then
        raise exception using errcode = '55000', message = format('postrider: operation %s cannot be planned', coalesce(p_operation::text, 'null')),
            detail = 'only the transaction that wrote it does';
    end if;
end $$;
comment on function postrider.dlq_plan_operation(uuid, bigint[]) is
'Notes what an operation that the same transaction planned would do to its scope; the second argument are the ids of its outbox events that halt their key and go back to their place.';

create function postrider.dlq_lock_operation(p_operation uuid) returns setof postrider.dlq_operation
language sql volatile security definer set search_path = pg_catalog, pg_temp as $$
    select * from postrider.dlq_operation o where o.dlq_operation_uuid = p_operation for update
$$;
comment on function postrider.dlq_lock_operation(uuid) is 'Locks an operation, and returns how it stands then.';

create function postrider.dlq_command_operation(p_operation uuid, p_state text, p_forgive boolean) returns void
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp as $$
begin
    perform postrider.access_owe();
    update postrider.dlq_operation o
    set state = p_state, updated_at = now(), next_at = null,
        started_at = case when p_state in ('running', 'canary') then coalesce(o.started_at, now()) else o.started_at end,
        finished_at = case when p_state = 'aborted' then coalesce(o.finished_at, now()) else o.finished_at end,
        options = case when p_forgive then o.options || jsonb_build_object('forgiven', o.came_back, 'forgiven_delivered', o.delivered) else o.options end,
        error = case when p_state in ('running', 'canary') then null else o.error end
    where o.dlq_operation_uuid = p_operation
      and (p_state in ('running', 'canary') and o.state in ('planned', 'paused', 'halted')
           or p_state = 'paused' and o.state in ('running', 'canary')
           or p_state = 'aborted' and o.state not in ('completed', 'aborted'));
    if not found then
        raise exception using errcode = '55000', message = format('postrider: operation %s cannot become %s', coalesce(p_operation::text, 'null'), coalesce(p_state, 'null')),
            hint = 'postrider op show says how it stands.';
    end if;
end $$;
comment on function postrider.dlq_command_operation(uuid, text, boolean) is
'Gives an operation the state that somebody wants: running or canary (of one that is planned, paused or halted), paused (of one that runs), aborted (of one that has not ended). With p_forgive what made it halt is not counted again.';

create function postrider.access_revoke_key(p_key text) returns setof postrider.access_key
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp as $$
begin
    perform postrider.access_owe();
    return query
    update postrider.access_key k set revoked_at = coalesce(k.revoked_at, now()) where k.access_key_id = p_key returning k.*;
end $$;
comment on function postrider.access_revoke_key(text) is 'Ends an API key, and returns it; one that was revoked before stays as it was. Nothing is returned where there is no such key.';

create function postrider.detectors_pause(p_by text, p_reason text, p_seconds double precision) returns void
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp as $$
begin
    perform postrider.access_owe();
    -- What somebody paused without an end is not given one by a pause that has an end, and a detector shortens no pause.
    update postrider.tasker_detector d
    set paused_at = c.now, paused_by = p_by, pause_reason = nullif(p_reason, ''),
        resume_at = case when p_seconds > 0 then c.now + make_interval(secs => p_seconds) end
    from (select clock_timestamp() as now offset 0) c
    where p_seconds = 0 or d.paused_at is null
       or d.resume_at is not null and (p_by <> 'latency_limit' or d.resume_at < c.now + make_interval(secs => p_seconds));
end $$;
comment on function postrider.detectors_pause(text, text, double precision) is
'Pauses all detectors of stale tasks, for so many seconds; 0 is until somebody resumes them, and such a pause is given no end.';

create function postrider.detectors_resume() returns boolean
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp as $$
declare
    paused boolean;
begin
    select d.paused_at is not null and (d.resume_at is null or d.resume_at > clock_timestamp()) into paused
    from postrider.tasker_detector d for update;
    if paused then
        perform postrider.access_owe();
    end if; -- otherwise what is taken away ended by itself
    update postrider.tasker_detector d set paused_at = null, paused_by = null, pause_reason = null, resume_at = null where d.paused_at is not null;
    return paused;
end $$;
comment on function postrider.detectors_resume() is 'Ends a pause of the detectors; false means that there was none.';

revoke all on function postrider.dlq_under_way(uuid[]),
    postrider.dlq_note_redrives(uuid, text, uuid[], text[], bigint[], uuid[], boolean[], integer[], text[], boolean[]), postrider.dlq_change_entry(uuid, text, text, text, jsonb, text, text),
    postrider.dlq_purge_entries(uuid[]), postrider.dlq_resolve_group(uuid, timestamptz, integer, text, text, text), postrider.dlq_lock_group(uuid),
    postrider.dlq_change_group(uuid, text, text, text, timestamptz), postrider.dlq_insert_operation(text, text, text, text, jsonb, jsonb),
    postrider.dlq_freeze_operation(uuid, timestamptz, uuid[], uuid, text, text, text, text, text, text, text, timestamptz, timestamptz, text),
    postrider.dlq_plan_operation(uuid, bigint[]), postrider.dlq_lock_operation(uuid), postrider.dlq_command_operation(uuid, text, boolean),
    postrider.access_revoke_key(text), postrider.detectors_pause(text, text, double precision), postrider.detectors_resume() from public;
