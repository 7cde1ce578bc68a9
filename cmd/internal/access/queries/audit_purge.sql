select postrider.access_purge_audit($1::bigint * interval '1 microsecond', $2)
