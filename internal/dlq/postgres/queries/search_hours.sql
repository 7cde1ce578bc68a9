-- How many investigations were opened in the hours of a time: about so many in that time.
select coalesce(sum(h.opened), 0)::bigint
from postrider.dlq_hour h
where ($1::timestamptz is null or h.hour > $1 - interval '1 hour') and ($2::timestamptz is null or h.hour <= $2)
  and ($3::uuid[] is null or h.dlq_group_uuid = any ($3))
