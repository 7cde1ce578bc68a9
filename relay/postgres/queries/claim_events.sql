-- Reads the pending events of the locked shards in order, with a snapshot taken after the locks, so
-- that everything the shards' last owners settled is seen. One index scan per shard, which ends after its
-- share of $1 events. Only what every event needs: of those that were touched before, are delayed or have
-- limits of their own, read_details has the rest. Keys and payloads of together more than $2 bytes are left
-- out, and their size is given instead; read_large has them.
select e.id, e.event_id, e.topic, case when e.large = 0 then e.key end, case when e.large = 0 then e.payload end, e.headers,
       -- In one number, because each column costs: the shard, whether there are details, and the size if it is large.
       claimed.shard + case when e.updated_at is not null or e.max_attempts is not null or e.available_at > statement_timestamp()
                            then 64 else 0 end + e.large * 128
from postrider.outbox_shard s
-- The mark of a shard: see lock_shards. Offset 0: once per shard, not per event.
cross join lateral (select s.shard, case when s.epoch = ($3::bigint[])[s.shard + 1] then greatest(s.low_water, ($4::bigint[])[s.shard + 1]) else s.low_water end as mark offset 0) claimed
cross join lateral (
    select e.id, e.event_id, e.topic, e.key, e.payload, e.headers, e.updated_at, e.max_attempts, e.available_at,
           case when octet_length(e.payload) > $2::int or octet_length(e.key) > $2::int
                then coalesce(octet_length(e.payload), 0)::bigint + coalesce(octet_length(e.key), 0) else 0 end as large
    from postrider.outbox_event e
    where e.shard = claimed.shard and e.state = 'pending' and e.id > claimed.mark and e.id + 0 > claimed.mark
    order by e.id + 0 -- what only its own index can give; see the index
    limit (select greatest($1::int / greatest(cardinality(current_setting('postrider.claim')::smallint[]), 1), 1))
) e
where s.shard = any (current_setting('postrider.claim')::smallint[])
