select coalesce(s.plugin::text, ''), coalesce(s.database::text, ''), s.database = current_database(), s.active, coalesce(s.wal_status, ''), coalesce(s.confirmed_flush_lsn::text, '')
from pg_catalog.pg_replication_slots s where s.slot_name = $1
