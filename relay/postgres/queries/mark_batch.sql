-- Makes a batch visible. The dead ones ($7) whose shards it took over lose those shards, and go when they
-- have no other: what they say of the rest is for whoever claims that.
with emptied as (
    delete from postrider.outbox_batch where batch_id = any ($7::uuid[]) and shards <@ $3::smallint[]
), reduced as (
    update postrider.outbox_batch b
    set shards = array(select s from unnest(b.shards) s where s <> all ($3::smallint[]))
    where b.batch_id = any ($7::uuid[]) and not b.shards <@ $3::smallint[]
)
insert into postrider.outbox_batch (batch_id, worker, shards, first_id, last_id, events, crashes)
values ($1, $2, $3, $4, $5, $6, $8)
