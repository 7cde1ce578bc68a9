-- The newest letter and the newest redrive of each, and what of its message is where. A redrive is under way until it
-- ended, and, where it was given up again, until its letter is here: from then on there is something to send. Only the
-- newest can be under way. Each is looked up by its key, with a limit that keeps it from becoming a join.
select e.dlq_entry_uuid, e.subject_type, e.resolution_status::text,
       r.generation is not null
       and (r.outcome is null or r.outcome = 'came_back'
            and (select true from postrider.dlq_letter b where b.letter_id = case r.source when 'main' then '' else r.source || '/' end || 'event:' || r.event_id || ':' || (r.episode + 1) limit 1) is null),
       l.letter_id, l.event_id, coalesce(l.episode, 0), l.outbox_id, coalesce(l.origin_topic, ''), l.origin_partition, l.origin_offset,
       l.dlq_topic, l.dlq_partition, l.dlq_offset,
       l.consumer_group,
       l.retry_topic,
       coalesce(l.error_code = 'RESERVED_TOPIC' and l.dialect = 'postrider', false),
       coalesce(l.error_code = 'TOPIC_NOT_ALLOWED' and l.dialect = 'postrider', false),
       coalesce(l.hops, 0),
       coalesce(l.unreadable, false),
       coalesce(case when l.unreadable and l.key_kind <> 'reference' then l.headers::text end, ''),
       coalesce(l.bytes, 0), e.task_uuid, e.source, l.source_outbox_id
from unnest($1::uuid[]) as w(id)
cross join lateral (
    select e.dlq_entry_uuid, e.subject_type, e.resolution_status, e.task_uuid, e.source from postrider.dlq_entry e where e.dlq_entry_uuid = w.id limit 1) e
left join lateral (
    select r.generation, r.outcome, r.event_id, r.episode, r.source from postrider.dlq_redrive r
    where r.dlq_entry_uuid = e.dlq_entry_uuid order by r.generation desc limit 1) r on true
left join lateral (
    select l.letter_id, l.event_id, l.episode, l.outbox_id, l.origin_topic, l.origin_partition, l.origin_offset, l.dlq_topic, l.dlq_partition,
           l.dlq_offset, l.consumer_group, l.retry_topic, l.error_code, l.dialect, l.headers, l.hops, l.key_kind, l.source_outbox_id,
           -- As long as they are, though not read for it.
           coalesce(octet_length(l.payload), l.payload_bytes, 0) + coalesce(octet_length(l.key), 0) + pg_column_size(l.headers) as bytes,
           -- $2 is the header under which a letter has what cannot be read of its event's. Few have it as any text. Names
           -- that the outbox takes from no writer count as unreadable, too.
           l.dialect = 'postrider' and l.headers @> jsonb_build_array(jsonb_build_array($2::text))
           and coalesce((select true from jsonb_array_elements(l.headers) h(pair) where h.pair->>0 = $2::text limit 1), false)
           or jsonb_path_exists(l.headers, 'strict $[*] ? (@[0] == "" || @[0] like_regex "[\\x01-\\x1f\\x7f]")', '{}', true) as unreadable
    from postrider.dlq_letter l where l.dlq_entry_uuid = e.dlq_entry_uuid
    order by coalesce(l.episode, 0) desc, l.recorded_at desc, l.dlq_partition desc, l.dlq_offset desc limit 1) l on true
