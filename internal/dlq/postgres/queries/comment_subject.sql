-- Whether there is the investigation $1 or the group $2.
select exists (select from postrider.dlq_entry e where e.dlq_entry_uuid = $1::uuid)
    or exists (select from postrider.dlq_group g where g.dlq_group_uuid = $2::uuid and g.dlq_group_uuid <> '00000000-0000-0000-0000-000000000000')
