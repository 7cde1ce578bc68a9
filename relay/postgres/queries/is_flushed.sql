select pg_catalog.pg_current_wal_flush_lsn() >= $1::text::pg_catalog.pg_lsn
