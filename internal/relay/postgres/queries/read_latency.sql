-- From insert to acknowledgement, of the newest events that are still in the table: at most 500 of the newest 50 receipts.
-- The limits inside keep PostgreSQL from walking whole tables when statistics are wrong.
select count(*), coalesce(percentile_disc(0.5) within group (order by l.took), 0), coalesce(percentile_disc(0.99) within group (order by l.took), 0)
from (
    select extract(epoch from r.at - greatest(e.created_at, coalesce(e.available_at, e.created_at)))::float8 as took
    from (select r.number, r.at, r.events from postrider.outbox_receipt r order by r.number desc limit 50) r
    cross join lateral unnest(r.events) g
    left join lateral (select x.id from postrider.outbox_exception x
                       where x.id >= lower(g) and x.id < upper(g) order by x.id limit 1) kept on true
    cross join lateral (select v.created_at, v.available_at from postrider.outbox_event v
                        where v.id >= lower(g) and v.id < upper(g) order by v.id limit 500) e
    where kept.id is null
    limit 500
) l
