select v.event_id, v.key, v.payload, v.headers
from (select x.event_id, case when x.copied then x.key else e.key end as key, case when x.copied then x.payload else e.payload::bytea end as payload,
             coalesce(case when x.copied then x.headers else e.headers::jsonb end, '{}') as headers
      from postrider.outbox_exception x left join postrider.outbox_event e on e.id = x.id where x.id = $1::bigint
      union all
      select e.event_id, e.key, e.payload, e.headers from postrider.outbox_event e where e.id = $1::bigint limit 1) v
limit 1
