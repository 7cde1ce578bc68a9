delete from postrider.outbox_hold h where h.hold_id = $1
  and not exists (select from postrider.outbox_hold_shard hs where hs.hold_id = h.hold_id)
