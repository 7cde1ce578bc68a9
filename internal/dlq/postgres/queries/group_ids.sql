-- The ids of at most $3 groups from $1 to $2.
select dlq_group_uuid from postrider.dlq_group where dlq_group_uuid between $1 and $2 order by dlq_group_uuid limit $3
