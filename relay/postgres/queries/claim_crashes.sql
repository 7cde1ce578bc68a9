-- Batches over the locked shards that are still marked: their workers are gone, for a live one would
-- hold the locks. Those of this very process ($1 begins its worker ids) only lost their connection.
select batch_id, crashes, first_id, last_id, starts_with(worker, $1) from postrider.outbox_batch
where shards && current_setting('postrider.claim')::smallint[]
