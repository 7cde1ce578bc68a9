-- The investigation of a group to look at first: of the newest pending ones, one whose letter has its payload; else the newest.
select coalesce((
    select n.dlq_entry_uuid
    from (select e.dlq_entry_uuid, e.created_at from postrider.dlq_entry e
          where e.dlq_group_uuid = $1 and e.resolution_status = 'pending'
          order by (e.created_at at time zone 'UTC') desc, e.dlq_entry_uuid desc limit 100) n
    order by exists (select from postrider.dlq_letter l where l.dlq_entry_uuid = n.dlq_entry_uuid and l.payload_kind = 'inline') desc,
             n.created_at desc, n.dlq_entry_uuid desc
    limit 1), (select g.last_entry_uuid from postrider.dlq_group g where g.dlq_group_uuid = $1))
