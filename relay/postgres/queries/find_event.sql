-- An event by its event_id, at any age: what was given up by its index, all others by the BRIN index, which is in the order of time.
select v.id from (
    select x.id from postrider.outbox_exception x where x.event_id = $1::uuid
    union all
    select e.id from postrider.outbox_event e where e.event_id = $1::uuid) v
order by v.id desc limit 1
