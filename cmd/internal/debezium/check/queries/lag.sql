-- How far a slot is behind, in bytes. Some services refuse the functions (55000).
select pg_wal_lsn_diff(pg_current_wal_lsn(), s.confirmed_flush_lsn)::bigint
from pg_catalog.pg_replication_slots s where s.slot_name = $1
