-- An event by its event_id, at any age: what was given up by its index, all others by the BRIN index, which is in the order of time.
select greatest((select max(x.id) from postrider.outbox_exception x where x.event_id = $1::uuid), postrider.outbox_find($1::uuid))
