-- Each count reads an index; only the counts of failed and of dead-lettered events read the exceptions. Events that were
-- acknowledged are not touched.
select (select count(*) from postrider.outbox_event e where e.id > p.position) + g.events,
       (select count(*) from postrider.outbox_event e
         where e.id > p.position and coalesce(e.available_at, '-infinity') <= clock_timestamp()) + g.events,
       (select count(*) from postrider.outbox_exception x where x.state in ('parked', 'scheduled') and x.attempts > 0),
       (select count(*) from postrider.outbox_exception x where x.hold_id is not null),
       (select count(*) from postrider.outbox_exception x where x.state = 'scheduled'),
       (select count(*) from postrider.outbox_exception x where x.state = 'exhausted'),
       (select count(*) from postrider.outbox_exception x where x.state = 'dead_lettered'),
       coalesce(extract(epoch from clock_timestamp() - least(
           (select e.created_at from postrider.outbox_event e
             where e.id > p.position and coalesce(e.available_at, '-infinity') <= clock_timestamp() order by e.id limit 1),
           g.oldest,
           -- Events behind a halted key wait for an operator, and are not late.
           (select min(coalesce(x.created_at, (select e.created_at from postrider.outbox_event e where e.id = x.id)))
              from postrider.outbox_exception x
             where x.hold_id is not null
               and not exists (select from postrider.outbox_hold h
                               where h.hold_id = x.hold_id and h.cause = 'halted' and not h.draining)),
           (select min(x.next_attempt_at) from postrider.outbox_exception x where x.state = 'scheduled' and x.next_attempt_at <= clock_timestamp()),
           (select min(x.created_at) from postrider.outbox_exception x where x.state = 'exhausted'))), 0)::float8,
       (select count(*) from postrider.outbox_exception x where x.sending_since is not null),
       (select count(*) from postrider.outbox_hold)
from postrider.outbox_progress p
cross join lateral (
    select count(e.id) as events, min(e.created_at) as oldest
    from unnest(p.gaps) gap join postrider.outbox_event e on e.id >= lower(gap) and e.id < upper(gap)) g
