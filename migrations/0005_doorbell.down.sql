drop trigger outbox_event_ring on postrider.outbox_event;
drop function postrider.outbox_ring();
drop sequence postrider.outbox_doorbell;
