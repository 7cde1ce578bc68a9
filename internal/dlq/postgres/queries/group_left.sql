-- How many pending investigations of a group were opened until $2.
select count(*) from postrider.dlq_entry e
where e.dlq_group_uuid = $1 and e.resolution_status = 'pending' and (e.created_at at time zone 'UTC') <= ($2::timestamptz at time zone 'UTC')
