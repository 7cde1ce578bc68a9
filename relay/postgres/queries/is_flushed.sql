-- Whether the write-ahead log is on the disk up to $1, of which server that is, and the place of its last checkpoint.
select pg_catalog.pg_current_wal_flush_lsn() >= $1::text::pg_catalog.pg_lsn,
       (extract(epoch from pg_catalog.pg_postmaster_start_time()) * 1000000)::bigint, coalesce(pg_catalog.pg_relation_filenode('postrider.outbox_shard'), 0)::bigint,
       (select c.checkpoint_lsn::text from pg_catalog.pg_control_checkpoint() c)
