-- Says that holds have parked events in shards. The key-share lock keeps a hold from ending before
-- this transaction does. A renewed hold lets nothing more through.
with held as (
    select h.hold_id from postrider.outbox_hold h where h.hold_id = any ($1::bigint[])
    order by h.hold_id for key share of h
)
insert into postrider.outbox_hold_shard as hs (hold_id, shard)
select distinct f.hold_id, f.shard
from unnest($1::bigint[], $2::smallint[]) as f(hold_id, shard) join held using (hold_id)
order by 1, 2
on conflict (hold_id, shard) do update set returned_through = 0 where hs.hold_id = any ($3::bigint[])
