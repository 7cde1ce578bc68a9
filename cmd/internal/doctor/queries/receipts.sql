-- Receipts that could have been merged an hour ago, counted as far as it matters.
select count(*) from (
    select from postrider.outbox_receipt r
    where r.number > (select k.position from postrider.outbox_retention k where k.kind = 'receipt')
      and r.number < (select max(b.number) from postrider.outbox_receipt b where b.gaps is not null)
      and r.at < clock_timestamp() - interval '1 hour'
    limit $1) late
