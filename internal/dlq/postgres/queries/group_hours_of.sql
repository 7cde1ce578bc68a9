-- group_hours of many groups: in the last 24 hours.
select h.dlq_group_uuid, h.hour, h.opened from postrider.dlq_hour h
where h.dlq_group_uuid = any($1::uuid[]) and h.hour > now() - interval '24 hours'
order by h.dlq_group_uuid, h.hour
