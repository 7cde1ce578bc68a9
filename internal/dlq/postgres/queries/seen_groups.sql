-- The groups among $1 that are of the sources $2. Each is looked up by its key.
select g.dlq_group_uuid from postrider.dlq_group g where g.dlq_group_uuid = any ($1::uuid[]) and g.source = any ($2::text[])
