-- The sources of investigations, each once.
select coalesce(array_agg(distinct e.source order by e.source), '{}') from postrider.dlq_entry e where e.dlq_entry_uuid = any ($1::uuid[])
