-- The newest id that any transaction has drawn. Where sessions draw ids in blocks (CACHE above 1) they use
-- them in transactions that have not begun yet, so no id is known to be the newest of those in use.
select coalesce((select pg_catalog.pg_sequence_last_value(s.seqrelid) from pg_catalog.pg_sequence s
                 where s.seqrelid = pg_catalog.pg_get_serial_sequence('postrider.outbox_event', 'id')::regclass
                   and s.seqcache = 1), 0)
