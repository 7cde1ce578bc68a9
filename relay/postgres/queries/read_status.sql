-- Each count reads one partial index; published rows are not touched.
select (select count(*) from postrider.outbox_event where state = 'pending'),
       (select count(*) from postrider.outbox_event where state = 'pending' and available_at <= clock_timestamp()),
       (select count(*) from postrider.outbox_event where state = 'pending' and attempts > 0)
         + (select count(*) from postrider.outbox_event where state = 'parked' and attempts > 0)
         + (select count(*) from postrider.outbox_event where state = 'scheduled' and attempts > 0),
       (select count(*) from postrider.outbox_event where state = 'parked'),
       (select count(*) from postrider.outbox_event where state = 'scheduled'),
       (select count(*) from postrider.outbox_event where state = 'exhausted'),
       (select count(*) from postrider.outbox_event where state = 'dead_lettered'),
       coalesce(extract(epoch from clock_timestamp() - least(
           (select min(greatest(available_at, created_at)) from postrider.outbox_event where state = 'pending' and available_at <= clock_timestamp()),
           (select min(greatest(available_at, created_at)) from postrider.outbox_event where state = 'parked' and available_at <= clock_timestamp()),
           (select min(greatest(available_at, created_at)) from postrider.outbox_event where state = 'scheduled' and available_at <= clock_timestamp()),
           (select min(greatest(available_at, created_at)) from postrider.outbox_event where state = 'exhausted'))), 0)::float8,
       (select coalesce(sum(events), 0)::bigint from postrider.outbox_batch),
       (select count(*) from postrider.outbox_hold)
