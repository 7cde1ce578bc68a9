-- By hour, for the last $2 of them.
select h.hour, h.opened from postrider.dlq_hour h
where h.dlq_group_uuid = $1 and h.hour > now() - $2 * interval '1 hour'
order by h.hour
