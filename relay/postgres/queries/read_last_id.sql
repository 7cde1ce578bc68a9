-- The newest id that any transaction has drawn.
select coalesce(pg_catalog.pg_sequence_last_value(
    pg_catalog.pg_get_serial_sequence('postrider.outbox_event', 'id')::regclass), 0)
