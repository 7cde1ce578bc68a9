-- The newest id that any transaction has drawn, or why it is not known. If sessions draw ids in blocks (CACHE above 1),
-- they use them in transactions that have not begun yet, so no id is known to be the newest in use. A login without the
-- right may not look.
select coalesce(case when s.seqcache = 1 and s.readable then pg_catalog.pg_sequence_last_value(s.seqrelid) end, 0),
       case when s.seqrelid is null then 'NO_SEQUENCE' when not s.readable then 'SEQUENCE_RIGHTS' when s.seqcache > 1 then 'SEQUENCE_CACHE'
           else '' end
from (select pg_catalog.pg_get_serial_sequence('postrider.outbox_event', 'id')::regclass as ids) i
left join lateral (select q.seqrelid, q.seqcache, pg_catalog.has_sequence_privilege(q.seqrelid, 'usage, select') as readable
                   from pg_catalog.pg_sequence q where q.seqrelid = i.ids) s on true
