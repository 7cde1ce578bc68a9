update postrider.outbox_exception x set sending_since = null from unnest($1::bigint[]) as d(id) where x.id = any (array[d.id])
