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
           -- What waits behind a halted key waits for somebody, and is not late.
           (select min(greatest(e.available_at, e.created_at)) from postrider.outbox_event e where e.state = 'parked' and e.available_at <= clock_timestamp()
               and not exists (select from postrider.outbox_hold h where h.hold_id = e.hold_id and h.cause = 'halted' and not h.draining)),
           (select min(greatest(available_at, created_at)) from postrider.outbox_event where state = 'scheduled' and available_at <= clock_timestamp()),
           (select min(greatest(available_at, created_at)) from postrider.outbox_event where state = 'exhausted'))), 0)::float8,
       (select coalesce(sum(events), 0)::bigint from postrider.outbox_batch),
       (select count(*) from postrider.outbox_hold)
