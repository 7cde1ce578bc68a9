-- The headers of events that are in the log, and nothing else of them: a payload may have 16 MiB.
select e.id, e.headers from postrider.outbox_event e where e.id = any ($1::bigint[])
