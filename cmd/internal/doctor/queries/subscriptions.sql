-- Subscriptions of logical replication that write into the log, here or disabled.
select s.subname::text from pg_catalog.pg_subscription_rel r join pg_catalog.pg_subscription s on s.oid = r.srsubid
where r.srrelid = 'postrider.outbox_event'::regclass
order by 1
