delete from postrider.outbox_hold h using unnest($1::bigint[]) as d(id) where h.hold_id = any (array[d.id])
