-- The ages of the $1 oldest pending investigations, in seconds, sorted by the bounds $2: how many lie before the first
-- bound (0), between the first and the second (1) and so on, their sum and the greatest.
select width_bucket(o.age, $2::float8[]), count(*), sum(o.age), max(o.age)
from (select greatest(extract(epoch from now() - e.created_at), 0)::float8 as age
      from postrider.dlq_entry e
      where e.resolution_status = 'pending'
      order by (e.created_at at time zone 'UTC'), e.dlq_entry_uuid
      limit $1::int) o
group by 1 order by 1
