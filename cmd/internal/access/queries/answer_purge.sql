delete from postrider.access_answer where ctid = any (array(
    select ctid from postrider.access_answer where created_at < now() - $1::bigint * interval '1 microsecond' limit $2))
