-- What receipts after number $1 say, by five seconds, since $2: the bound of numbers keeps the first look short, because
-- receipts have no index by time. The events of a receipt without those that it made exceptions, and exceptions that went.
with new as (
    select r.number, r.at, r.events, r.returned
    from postrider.outbox_receipt r
    where r.number > greatest($1::bigint, (select max(m.number) from postrider.outbox_receipt m) - 20000) and r.at > $2
)
select coalesce(max(n.number) over (), $1), to_timestamp(floor(extract(epoch from n.at) / 5) * 5),
       coalesce((select sum(upper(g) - lower(g)) from unnest(n.events) g), 0)::bigint
           + coalesce((select sum(upper(g) - lower(g)) from unnest(n.returned) g), 0)::bigint
from new n
