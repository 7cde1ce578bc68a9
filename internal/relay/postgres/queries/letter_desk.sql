-- The desk that this outbox obeys: the one that commands it, or for an outbox without a name the desk in the same database.
select coalesce(s.desk, case when s.name is null and to_regclass('postrider.dlq_entry') is not null then s.source_uuid::text end, '')
from postrider.outbox_source s
