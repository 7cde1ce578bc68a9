-- When the oldest open investigation was opened, and the newest ones.
select (select e.created_at from postrider.dlq_entry e where e.resolution_status = 'pending'
        order by (e.created_at at time zone 'UTC'), e.dlq_entry_uuid limit 1),
       array(select e.dlq_entry_uuid from postrider.dlq_entry e where e.resolution_status = 'pending'
             order by (e.created_at at time zone 'UTC') desc, e.dlq_entry_uuid desc limit $1)
