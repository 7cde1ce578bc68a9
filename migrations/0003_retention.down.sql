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
drop table postrider.outbox_purge;
