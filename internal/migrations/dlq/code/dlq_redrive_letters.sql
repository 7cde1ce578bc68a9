create or replace function postrider.dlq_redrive_letters(
    p_letter_ids text[], p_event_ids uuid[], p_topics text[], p_headers jsonb[], p_edited boolean, p_payload bytea, p_traceparent text default null)
returns table (event_id uuid, id bigint) language plpgsql volatile security definer set search_path = pg_catalog, pg_temp
set enable_seqscan = off set enable_bitmapscan = off set enable_hashjoin = off set enable_mergejoin = off set jit = off as $$
#variable_conflict use_column
declare
    most    constant integer := postrider.outbox_max_payload_bytes();
    refused text;
    entry   text;
    sent    text[] := '{}';
begin
    if p_traceparent !~ '^00-[0-9a-f]{32}-[0-9a-f]{16}-0[01]$' then
        raise exception using errcode = '22023', message = format('postrider: %L is no traceparent of version 00', left(p_traceparent, 100));
    end if;
    -- Each thing is looked up by its key, once for each message: as joins, statistics or an old plan of the session could
    -- make them walks.
    for event_id, id, refused, entry in
        with given as materialized (
            select w.place, w.event_id, w.topic, w.letter_id,
                   -- Only the message of a pending investigation enters the outbox here, and it names the investigation.
                   case when e.resolution_status is distinct from 'pending' or r.generation is not null and r.outcome is null
                             or r.outcome = 'came_back' and (select true from postrider.dlq_letter b
                                    where b.letter_id = 'event:' || r.event_id || ':' || (r.episode + 1) limit 1) is null then -2
                        when o.kind is null and (e.subject_type = 'event' or l.key_kind = 'reference' or l.payload_kind = 'reference' and not p_edited) then 0
                        when octet_length(c.payload) > most then -1 end as refusal,
                   case o.kind when 'task' then 'task' else 'redrive' end as kind, o.task_uuid, o.max_attempts, c.payload, l.hops,
                   -- Another topic has partitions of its own.
                   case when w.topic = l.origin_topic then o.partition end as partition, o.record_timestamp,
                   case when c.own then o.key else l.key end as key, coalesce(w.headers, c.headers) as headers,
                   e.dlq_entry_uuid::text as entry, e.dlq_entry_uuid::text || ':' || (coalesce(r.generation, 0) + 1) as redrive_id,
                   case when l.event_id is not null then 'event:' || l.event_id
                        when l.origin_topic <> '' and l.origin_partition is not null and l.origin_offset is not null
                        then 'record:' || l.origin_topic || '/' || l.origin_partition || '/' || l.origin_offset
                        else 'record:' || l.dlq_topic || '/' || l.dlq_partition || '/' || l.dlq_offset end as replay_of,
                   -- What inboxes know the message by: it stays the same, however often the message is sent again.
                   coalesce((select x.pair->>1 from jsonb_array_elements(case jsonb_typeof(c.headers) when 'array' then c.headers
                       else '[]' end) x(pair)
                             where x.pair->>0 = 'postrider-redrive-of' and length(x.pair->>1) <= 512
                               and x.pair->>1 ~ '^(event:[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$|record:.)' limit 1),
                            case when l.event_id is not null then 'event:' || l.event_id
                                 when e.subject_type = 'record' then 'record:' || split_part(c.record, '#', 1) end) as redrive_of,
                   coalesce(l.consumer_group,
                            (select x.pair->>1 from jsonb_array_elements(case jsonb_typeof(c.headers) when 'array' then c.headers
                                else '[]' end) x(pair)
                             where x.pair->>0 = 'postrider-redrive-for' and jsonb_typeof(x.pair->1) = 'string' limit 1)) as redrive_for,
                   -- A group that fails again at what came to its retry topic says where it read the message first.
                   case when e.subject_type = 'record' and l.origin_topic <> '' and l.origin_partition is not null and l.origin_offset is not null
                        then jsonb_build_array(jsonb_build_array('replay_origin', c.record)) else '[]' end as replay_origin
            from unnest(p_letter_ids, p_event_ids, p_topics, p_headers) with ordinality as w(letter_id, event_id, topic, headers, place)
            left join lateral (
                select l.dlq_entry_uuid, l.key, l.key_kind, l.payload, l.payload_kind, l.headers, l.hops, l.outbox_id, l.event_id,
                       l.origin_topic, l.origin_partition, l.origin_offset, l.dlq_topic, l.dlq_partition, l.dlq_offset, l.consumer_group
                from postrider.dlq_letter l where l.letter_id = w.letter_id limit 1) l on true
            left join lateral (
                select e.dlq_entry_uuid, e.resolution_status, e.subject_type, e.subject_id
                from postrider.dlq_entry e where e.dlq_entry_uuid = l.dlq_entry_uuid limit 1) e on true
            left join lateral (
                select r.generation, r.outcome, r.event_id, r.episode
                from postrider.dlq_redrive r where r.dlq_entry_uuid = e.dlq_entry_uuid order by r.generation desc limit 1) r on true
            left join lateral postrider.outbox_content(l.outbox_id, l.event_id) o on true
            -- Of an event only its row is sent: any writer to the dead-letter topic may have made the letter. The letter of a record
            -- may refer to an event of this outbox.
            cross join lateral (
                select coalesce(e.subject_type = 'event' or l.key_kind = 'reference', false) as own,
                       case when e.subject_type = 'event' or l.key_kind = 'reference' then o.headers else l.headers end as headers,
                       case when p_edited then p_payload when e.subject_type = 'event' or l.payload_kind = 'reference' then o.payload else l.payload end as payload,
                       -- Without the name of a source before it, as dlq.Subject does it.
                       regexp_replace(e.subject_id, '^[a-z][a-z0-9-]{0,39}/([^/#]+/[0-9]+/[0-9])', '\1') as record) c
        ), fresh as materialized (
            select g.place, g.event_id, g.entry, g.kind, g.topic, g.key, g.payload, g.task_uuid, g.max_attempts, g.partition,
                   g.record_timestamp, postrider.outbox_redrive_headers(g.headers,
                       jsonb_build_array(jsonb_build_array('replay_of', g.replay_of), jsonb_build_array('replay_id', g.redrive_id))
                       || g.replay_origin
                       || jsonb_build_array(jsonb_build_array('postrider-hops', (g.hops + 1)::text))
                       || case when g.redrive_of is null then '[]' else jsonb_build_array(jsonb_build_array('postrider-redrive-of', g.redrive_of)) end
                       || case when g.redrive_for is null then '[]' else jsonb_build_array(jsonb_build_array('postrider-redrive-for', g.redrive_for)) end,
                       g.event_id, p_traceparent) as headers
            from given g
            where g.refusal is null
        ), listed as materialized (
            select array_agg(f.event_id order by f.place) as event_ids, array_agg(f.entry order by f.place) as entries, array_agg(f.kind order by f.place) as kinds,
                   array_agg(f.topic order by f.place) as topics, array_agg(f.key order by f.place) as keys,
                   array_agg(f.payload order by f.place) as payloads, array_agg(f.headers order by f.place) as headers,
                   array_agg(f.max_attempts order by f.place) as max_attempts, array_agg(f.task_uuid order by f.place) as task_uuids,
                   array_agg(f.partition order by f.place) as partitions, array_agg(f.record_timestamp order by f.place) as timestamps
            from fresh f
        ), written as materialized (
            select a.event_ids[n.place::integer] as event_id, n.id, a.entries[n.place::integer] as entry
            from listed a
            cross join lateral postrider.outbox_insert(a.event_ids, a.kinds, a.topics, a.keys, a.payloads, a.headers, a.max_attempts, a.task_uuids,
                null, a.partitions, a.timestamps)
                with ordinality as n(id, place)
            where a.event_ids is not null
        )
        select g.event_id, g.refusal::bigint, case g.refusal when -2 then coalesce(g.letter_id, 'null') end, null from given g where g.refusal is not null
        union all
        select n.event_id, n.id, null, n.entry from written n
    loop
        if refused is not null then
            raise exception using errcode = '55000', message =
                format('postrider: letter %s has no pending investigation, or a redrive of that is on its way', refused),
                hint = 'postrider dlq requeue sends messages again, one after the other.';
        end if;
        if id > 0 then
            sent := array_append(sent, entry);
        end if;
        return next;
    end loop;
    if cardinality(sent) > 0 then
        perform postrider.access_owe('{dlq.requeue}', 'entry', sent);
    end if;
end $$;
comment on function postrider.dlq_redrive_letters(text[], uuid[], text[], jsonb[], boolean, bytea, text) is
'Writes the messages of letters as new events with the given event ids, each for its topic, in the given order, and returns their ids. If a letter has no pending investigation, or a redrive of that is on its way, nothing is written. The caller notes the redrives in the same transaction. Of an event, what its row has is sent, whatever its letter says; so is what the letter of a record only refers to. If that event is gone, 0 is returned for the letter; if the payload is beyond the limit, -1; neither is written. With p_edited the payload of all is p_payload instead. Headers that are given for a letter replace its own. postrider-redrive-of says what the message was first sent as, and postrider-redrive-for which consumer group gave it up. p_traceparent is the span of the redrive: the new trace of each message that has a traceparent begins with it. Null begins one trace for each.';
revoke all on function postrider.dlq_redrive_letters(text[], uuid[], text[], jsonb[], boolean, bytea, text) from public;
