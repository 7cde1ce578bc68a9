-- Shows whether a notification arrives.
select pg_notify('postrider_outbox', $1::text)
