-- Reads the pending events of the locked shards in id order along the primary key, from the lowest of their
-- marks on (see lock_shards; $5 and $6 are its $3 and $4): up to $1 events, among $3 times as many ids as so many events lie among when every shard
-- has its share. Each page is visited once, for all shards; so it pays where most of what lies there waits, and
-- where fewer than $4 shards are locked, so that most of it is others', nothing is read. What comes is the
-- front of every locked shard, as from claim_events, and has the same columns.
-- The shards are a mask of bits: searching an array costs as much as the rest of a row. "is not distinct from"
-- leaves only the primary key to walk along.
with claimed as materialized (
    select coalesce(min(case when s.epoch = ($5::bigint[])[s.shard + 1] then greatest(s.low_water, ($6::bigint[])[s.shard + 1]) else s.low_water end), 0) as low,
           coalesce(sum(1::bigint << s.shard), 0)::bigint as mask,
           case when count(*) >= $4::bigint then $1::bigint * $3::bigint * 64 / count(*) else 0 end as ids
    from postrider.outbox_shard s where s.shard = any (current_setting('postrider.claim')::smallint[])
)
select e.id, e.event_id, e.topic, case when e.large = 0 then e.key end, case when e.large = 0 then e.payload end, e.headers,
       -- As in claim_events.
       e.shard + case when e.updated_at is not null or e.max_attempts is not null or e.available_at > (select statement_timestamp())
                      then 64 else 0 end + e.large * 128
from (
    select e.id, e.event_id, e.topic, e.key, e.payload, e.headers, e.shard, e.updated_at, e.max_attempts, e.available_at,
           case when octet_length(e.payload) > $2::int or octet_length(e.key) > $2::int
                then coalesce(octet_length(e.payload), 0)::bigint + coalesce(octet_length(e.key), 0) else 0 end as large
    from postrider.outbox_event e
    where e.id > (select low from claimed) and e.id <= (select low + ids from claimed)
      and ((select mask from claimed) >> e.shard) & 1 = 1 and e.state is not distinct from 'pending'
    order by e.id limit $1::bigint
) e
