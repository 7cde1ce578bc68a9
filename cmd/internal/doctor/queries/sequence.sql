-- The sequence of outbox_event.id: its name, its CACHE, its last value, and the position of the log.
select s.name::text, q.seqcache, coalesce(pg_catalog.pg_sequence_last_value(q.seqrelid), 0), (select p.position from postrider.outbox_progress p)
from (select pg_catalog.pg_get_serial_sequence('postrider.outbox_event', 'id') as name) s
left join pg_catalog.pg_sequence q on q.seqrelid = s.name::regclass
