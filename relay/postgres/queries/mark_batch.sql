-- Makes a batch visible, in place of the dead ones ($7) whose shards it took over.
with dead as (delete from postrider.outbox_batch where batch_id = any ($7::uuid[]))
insert into postrider.outbox_batch (batch_id, worker, shards, first_id, last_id, events, crashes)
values ($1, $2, $3, $4, $5, $6, $8)
