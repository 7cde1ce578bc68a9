-- How many groups were made, and how many came back, after $1 and $2 seconds ago or earlier; and up to when was looked.
select t.until, count(g) filter (where g.opened_at = g.created_at), count(g) filter (where g.opened_at > g.created_at)
from (select clock_timestamp() - make_interval(secs => $2::float8) as until offset 0) t
left join postrider.dlq_group g on g.opened_at > $1::timestamptz and g.opened_at <= t.until and g.fingerprint_version > 0
group by t.until
