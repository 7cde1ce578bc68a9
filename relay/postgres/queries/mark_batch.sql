-- Makes a batch visible. The marker need not survive a crash of the database: its commit does not wait for the disk.
insert into postrider.outbox_batch (batch_id, worker, shards, first_id, last_id, events, crashes)
select $1::uuid, $2::text, $3::smallint[], $4::bigint, $5::bigint, $6::int, $7::int
from set_config('synchronous_commit', 'off', true)
