-- Ends the locked holds that have parked events in no shard. Its snapshot is taken after the locks, so that it
-- sees what somebody parked before.
delete from postrider.outbox_hold h using unnest(current_setting('postrider.emptied')::bigint[]) d(id)
where h.hold_id = d.id and not exists (select from postrider.outbox_hold_shard hs where hs.hold_id = h.hold_id)
