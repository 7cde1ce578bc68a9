select coalesce(sum(tasks) filter (where threshold_kind = 'state'), 0)::bigint,
       coalesce(sum(tasks) filter (where threshold_kind = 'lifetime'), 0)::bigint
from postrider.near_stale_tasks($1::double precision, $2::integer, $3::integer, $4::integer, $5::integer)
