-- Locks up to $2 free shards that have pending events, looking from shard $1 on, and leaves their
-- numbers in a setting of the transaction for the statements that follow in the same round trip. Says how
-- many, the lowest of their marks, what time it is, and which server. A shard's mark is its low-water mark, or what is known of
-- the shard's epoch: $3 has the epochs, $4 the marks.
-- The shards come one by one, so that it ends with the last that is needed. A scalar subquery, not exists:
-- that would be planned as a join that reads every pending event.
select set_config('postrider.claim', coalesce(array_agg(locked.shard)::text, '{}'), true), count(*)::int,
       coalesce(min(locked.mark), 0), clock_timestamp(),
       (extract(epoch from pg_catalog.pg_postmaster_start_time()) * 1000000)::bigint, coalesce(pg_catalog.pg_relation_filenode('postrider.outbox_shard'), 0)::bigint
from (
    select s.shard, m.mark from generate_series($1::int, $1::int + 63) n
    join postrider.outbox_shard s on s.shard = (n & 63)::smallint
    cross join lateral (select case when s.epoch = ($3::bigint[])[s.shard + 1] then greatest(s.low_water, ($4::bigint[])[s.shard + 1]) else s.low_water end as mark) m
    where (select true from postrider.outbox_event e
           where e.shard = s.shard and e.state = 'pending' and e.id > m.mark and e.id + 0 > m.mark
           order by e.id + 0 limit 1)
    limit $2
    for update of s skip locked
) locked
