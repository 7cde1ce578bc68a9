-- What topics acknowledged by the receipts after number $1, by five seconds, since $2: the bound of numbers keeps the first look
-- short, because receipts have no index by time. The events of a receipt have the ones that it made exceptions, too: what is an
-- exception still, and what went since, is not counted with them. What went is counted where it returned.
with new as materialized (
    select r.number, floor(extract(epoch from r.at) / 5) as step, r.events, r.returned
    from postrider.outbox_receipt r
    where r.number > greatest($1::bigint, (select max(m.number) from postrider.outbox_receipt m) - 20000) and r.at > $2
), went as materialized (
    select coalesce(range_agg(b), '{}') as ids, max(n.number) as number from new n left join unnest(n.returned) b on true
), steps as materialized (
    select n.step, coalesce(range_agg(e), '{}') as ids from new n left join unnest(n.events) e on true group by n.step
), returned as materialized (
    select n.step, sum(upper(b) - lower(b)) as events from new n, unnest(n.returned) b group by n.step
)
select w.number, to_timestamp(s.step * 5),
       (coalesce(r.events, 0) + coalesce((
           select sum(upper(g) - lower(g) - (select count(*) from postrider.outbox_exception x where x.id >= lower(g) and x.id < upper(g)))
           from unnest(s.ids - w.ids) g), 0))::bigint
from went w cross join steps s left join returned r using (step)
