select e.removed, e.more, e.busy, e.stopped from postrider.outbox_purge_events($1::bigint * interval '1 microsecond', $2::int, $3::bool) e
