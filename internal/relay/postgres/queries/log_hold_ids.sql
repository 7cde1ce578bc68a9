select nextval(pg_catalog.pg_get_serial_sequence('postrider.outbox_hold', 'hold_id')::regclass) from generate_series(1, $1::int)
