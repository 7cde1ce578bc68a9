select e.removed, e.more, e.busy from postrider.outbox_purge_exceptions($1::bigint * interval '1 microsecond', $2::int, $3::bool) e
