-- Investigations of redriven events that died again name the one that they come from, which ends.
with came_from as (
    select w.entry, r.dlq_entry_uuid as predecessor
    from unnest($1::uuid[], $2::uuid[]) as w(entry, event_id)
    join postrider.dlq_replay r on r.event_id = w.event_id and not r.in_place
    where r.dlq_entry_uuid <> w.entry
), named as (
    update postrider.dlq_entry e set predecessor_uuid = c.predecessor
    from came_from c where e.dlq_entry_uuid = c.entry and exists (select from postrider.dlq_entry p where p.dlq_entry_uuid = c.predecessor)
)
select entry, predecessor from came_from order by predecessor
