delete from postrider.outbox_idempotency_key k
where k.ctid >= format('(%s,0)', $1::bigint)::tid and k.ctid < format('(%s,0)', $1::bigint + $2::bigint)::tid
  and k.created_at <= now() - $3::bigint * interval '1 microsecond'
