-- Reads the whole table, beside everybody else.
alter table postrider.outbox_event validate constraint outbox_event_partition_bound
