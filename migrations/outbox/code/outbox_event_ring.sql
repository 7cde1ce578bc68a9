create or replace trigger outbox_event_ring after insert on postrider.outbox_event
for each statement execute function postrider.outbox_ring();
comment on trigger outbox_event_ring on postrider.outbox_event is
'Wakes an idle relay. Does nothing while none asked for it.';
