-- The ids of at most $3 investigations from $1 to $2.
select dlq_entry_uuid from postrider.dlq_entry where dlq_entry_uuid between $1 and $2 order by dlq_entry_uuid limit $3
