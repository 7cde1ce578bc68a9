-- Of a batch that is tried one event at a time, what is up to $2 is settled. It stays as a mark of the
-- rest, with its count of deaths, until there is none.
with done as (delete from postrider.outbox_batch where batch_id = $1 and last_id <= $2)
update postrider.outbox_batch set first_id = $2 + 1 where batch_id = $1 and last_id > $2
