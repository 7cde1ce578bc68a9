-- The investigations to be purged, locked in an order that everybody keeps, and the event of the newest letter of
-- each pending one.
select e.dlq_entry_uuid, case when e.resolution_status = 'pending' then
           (select l.outbox_id from postrider.dlq_letter l where l.dlq_entry_uuid = e.dlq_entry_uuid
            order by coalesce(l.episode, 0) desc, l.recorded_at desc limit 1) end
from unnest($1::uuid[]) as w(id)
join postrider.dlq_entry e on e.dlq_entry_uuid = w.id
order by e.dlq_entry_uuid
for update of e
