-- One statement, and so one snapshot, for the gaps and for what lies behind the position: with two, an event that was
-- committed between them would be sent before an earlier one of its key.
-- $1, $2 gaps; $3 position; $4 events of each part at most; $5 the size from which a payload is read later.
-- The first row says what the statement saw: id is the time, about the newest id that was drawn, -1 where that is not known.
-- about of the others: bit 0 delayed, bit 1 details, bit 2 of a task, bit 3 of a redrive, bit 4 placed; above these the size where key or
-- payload are large; most have null. The headers of a placed one stand in an array, with its partition and its timestamp in
-- microseconds: two columns more would cost all others. headers are null where there are none: an empty object takes 5 bytes, and writing it out costs more.
select (extract(epoch from clock_timestamp()) * 1000000)::bigint as id, null::uuid as event_id, pg_catalog.pg_current_snapshot()::text as topic,
       null::bytea as key,
       convert_to((select jsonb_object_agg(s.id, s.reason)::text from postrider.outbox_skip_request s), 'UTF8') as payload, null::jsonb as headers,
       case when pg_catalog.has_sequence_privilege(pg_catalog.to_regclass('postrider.outbox_event_id_seq'), 'usage, select')
            then coalesce(pg_catalog.pg_sequence_last_value(pg_catalog.to_regclass('postrider.outbox_event_id_seq')), 0) else -1 end as about
union all
(select e.id, e.event_id, e.topic::text, case when octet_length(e.key) < $5::int then e.key end,
    case when octet_length(e.payload) < $5::int then e.payload::bytea end,
        case when e.partition is not null or e.timestamp is not null
             then jsonb_build_array(e.headers, e.partition, (extract(epoch from e.timestamp) * 1000000)::bigint)
             when pg_column_size(e.headers) > 5 then e.headers::jsonb end,
        case when e.available_at is not null or e.max_attempts is not null or e.task_uuid is not null or e.kind <> 'event'
                  or e.partition is not null or e.timestamp is not null
                  or octet_length(e.payload) >= $5::int or octet_length(e.key) >= $5::int
             then case when e.available_at > clock_timestamp() then 1 else 0 end + case when e.max_attempts is not null
                 or e.task_uuid is not null then 2 else 0 end
                  + case e.kind when 'task' then 4 when 'redrive' then 8 else 0 end
                  + case when e.partition is not null or e.timestamp is not null then 16 else 0 end
                  + case when octet_length(e.key) >= $5::int or octet_length(e.payload) >= $5::int
                         then 32 * (coalesce(octet_length(e.key), 0)::bigint + coalesce(octet_length(e.payload), 0)) else 0 end end
 from unnest($1::bigint[], $2::bigint[]) with ordinality as g(lowest, highest, place)
 cross join lateral (select * from postrider.outbox_event o where o.id between g.lowest and g.highest order by o.id limit $4::int) e
 limit $4::int)
union all
(select e.id, e.event_id, e.topic::text, case when octet_length(e.key) < $5::int then e.key end,
    case when octet_length(e.payload) < $5::int then e.payload::bytea end,
        case when e.partition is not null or e.timestamp is not null
             then jsonb_build_array(e.headers, e.partition, (extract(epoch from e.timestamp) * 1000000)::bigint)
             when pg_column_size(e.headers) > 5 then e.headers::jsonb end,
        case when e.available_at is not null or e.max_attempts is not null or e.task_uuid is not null or e.kind <> 'event'
                  or e.partition is not null or e.timestamp is not null
                  or octet_length(e.payload) >= $5::int or octet_length(e.key) >= $5::int
             then case when e.available_at > clock_timestamp() then 1 else 0 end + case when e.max_attempts is not null
                 or e.task_uuid is not null then 2 else 0 end
                  + case e.kind when 'task' then 4 when 'redrive' then 8 else 0 end
                  + case when e.partition is not null or e.timestamp is not null then 16 else 0 end
                  + case when octet_length(e.key) >= $5::int or octet_length(e.payload) >= $5::int
                         then 32 * (coalesce(octet_length(e.key), 0)::bigint + coalesce(octet_length(e.payload), 0)) else 0 end end
 from postrider.outbox_event e where e.id > $3::bigint order by e.id limit $4::int)
