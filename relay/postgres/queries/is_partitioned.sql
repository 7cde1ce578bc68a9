select relkind = 'p' from pg_catalog.pg_class where oid = 'postrider.outbox_event'::regclass
