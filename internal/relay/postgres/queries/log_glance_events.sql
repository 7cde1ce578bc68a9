-- Whether there are events behind the position $1.
select exists (select from postrider.outbox_event e where e.id > $1::bigint)
