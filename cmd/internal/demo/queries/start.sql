select coalesce(max(id), 0) from postrider.outbox_event
