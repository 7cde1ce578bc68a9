-- Makes a batch visible. The marker need not survive a crash of the database: its commit does not wait for the disk.
insert into postrider.outbox_batch (worker, shards, first_id, last_id, events, crashes)
select $1::text, $2::smallint[], $3::bigint, $4::bigint, $5::int, $6::int
from set_config('synchronous_commit', 'off', true)
returning batch_id
