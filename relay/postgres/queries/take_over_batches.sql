-- The batches of the dead ($1) lose the shards ($2) that somebody took over, and go when they have no other: what
-- they say of the rest is for whoever claims that.
with emptied as (
    delete from postrider.outbox_batch where batch_id = any ($1::bigint[]) and shards <@ $2::smallint[]
)
update postrider.outbox_batch b
set shards = array(select s from unnest(b.shards) s where s <> all ($2::smallint[]))
where b.batch_id = any ($1::bigint[]) and not b.shards <@ $2::smallint[]
