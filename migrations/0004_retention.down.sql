-- A table that was partitioned stays so; only who looks after its partitions goes.
drop function postrider.outbox_drop_partition(interval, boolean);
drop function postrider.outbox_partition_settled(text);
drop function postrider.outbox_add_partitions(integer);
drop function postrider.outbox_partition_convert(bigint);
drop function postrider.outbox_partition_prepare(bigint);
drop function postrider.outbox_create_partition(bigint, bigint);
drop function postrider.outbox_hand_over_partition(text);
drop table postrider.outbox_partition;
alter table postrider.outbox_idempotency_key reset (
    autovacuum_vacuum_scale_factor, autovacuum_vacuum_threshold,
    autovacuum_vacuum_insert_scale_factor, autovacuum_vacuum_insert_threshold);
alter table postrider.outbox_hold_shard reset (fillfactor, vacuum_truncate,
    autovacuum_vacuum_scale_factor, autovacuum_vacuum_threshold, autovacuum_analyze_scale_factor, autovacuum_analyze_threshold);
alter table postrider.outbox_hold reset (vacuum_truncate,
    autovacuum_vacuum_scale_factor, autovacuum_vacuum_threshold, autovacuum_analyze_scale_factor, autovacuum_analyze_threshold);
alter table postrider.outbox_batch reset (vacuum_truncate,
    autovacuum_vacuum_scale_factor, autovacuum_vacuum_threshold, autovacuum_analyze_scale_factor, autovacuum_analyze_threshold);
alter table postrider.outbox_shard reset (fillfactor, vacuum_truncate,
    autovacuum_vacuum_scale_factor, autovacuum_vacuum_threshold, autovacuum_analyze_scale_factor, autovacuum_analyze_threshold);
drop function postrider.dlq_event_closed(uuid, integer);
drop index postrider.dlq_letter_of_task;
drop table postrider.outbox_purge;
