-- The newest letter of each, and what of its message is where. A redrive is under way until it ended, and, where it
-- was given up again, until its letter is here: from then on there is something to send.
select e.dlq_entry_uuid, e.subject_type, e.resolution_status::text, e.generation,
       exists (select from postrider.dlq_replay r
               where r.dlq_entry_uuid = e.dlq_entry_uuid
                 and (r.outcome is null or r.outcome = 'came_back' and r.generation = e.generation
                      and not exists (select from postrider.dlq_letter b where b.letter_id = 'event:' || r.event_id || ':' || (r.episode + 1)))),
       l.letter_id, l.event_id, coalesce(l.episode, 0), l.outbox_id, coalesce(l.origin_topic, ''), l.origin_partition, l.origin_offset,
       l.dlq_topic, l.dlq_partition, l.dlq_offset,
       case when l.consumer_group is not null then
           coalesce(l.retry_topic, (select coalesce(h.pair->>1, '') from jsonb_array_elements(l.headers) h(pair) where lower(h.pair->>0) = $2 limit 1)) end,
       coalesce(l.hops, 0),
       coalesce(l.dialect = 'postrider' and u.headers, false),
       coalesce(case when l.dialect = 'postrider' and u.headers and l.key_kind <> 'reference' then l.headers::text end, '')
from unnest($1::uuid[]) as w(id)
join postrider.dlq_entry e on e.dlq_entry_uuid = w.id
left join lateral (
    select l.* from postrider.dlq_letter l where l.dlq_entry_uuid = e.dlq_entry_uuid
    order by coalesce(l.episode, 0) desc, l.recorded_at desc, l.dlq_partition desc, l.dlq_offset desc limit 1) l on true
-- $3 is the header under which a letter has what cannot be read of its event's.
left join lateral (select exists (select from jsonb_array_elements(l.headers) h(pair) where h.pair->>0 = $3) as headers) u on true
