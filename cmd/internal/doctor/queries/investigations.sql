-- Counted as far as it matters.
select (select count(*) from (select from postrider.dlq_entry where resolution_status = 'pending' limit 100001) p),
       coalesce((select extract(epoch from now() - min(created_at)) from postrider.dlq_entry where resolution_status = 'pending'), 0)::float8
