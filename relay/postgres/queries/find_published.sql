-- Looks at the $2 events after id $1: which of them were published $3 microseconds ago or more, how far the
-- walk came, and whether there is more. It ends before the first event that is too young itself: after it
-- there is none that was sent so long ago. An event from the future, which a clock that was wrong left
-- behind, says nothing about those after it.
with walked as materialized (
    select e.id, e.state = 'published' and e.sent_at <= now() - $3::bigint * interval '1 microsecond' as old,
           e.created_at > now() - $3::bigint * interval '1 microsecond' and e.created_at <= now() as young
    from postrider.outbox_event e
    where e.id > coalesce($1::bigint, -9223372036854775808)
    order by e.id limit $2::int
), reached as (
    select coalesce((select min(id) from walked where young), 9223372036854775807) as before
)
select coalesce(array_agg(w.id) filter (where w.old and w.id < r.before), '{}'),
       max(w.id) filter (where w.id < r.before),
       count(*) >= $2::int and count(*) filter (where w.young) = 0
from walked w cross join reached r
