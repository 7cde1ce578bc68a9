-- An event by its event_id, at any age.
select postrider.outbox_find_event($1::uuid)
