-- Batches over the locked shards that are still marked: their workers are gone, for a live one would
-- hold the locks. Those of this very process ($1 begins its worker ids) only lost their connection, and
-- those of nobody were given back (free_batch). Up to $2 none is left (pass_markers).
select batch_id, crashes, first_id, last_id, worker = '' or starts_with(worker, $1) from postrider.outbox_batch
where batch_id > $2::bigint and shards && current_setting('postrider.claim')::smallint[]
