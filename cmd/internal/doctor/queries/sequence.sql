select pg_get_serial_sequence('postrider.outbox_event', 'id'),
       (select q.seqcache from pg_catalog.pg_sequence q where q.seqrelid = pg_get_serial_sequence('postrider.outbox_event', 'id')::regclass)
