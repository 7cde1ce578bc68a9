-- Notes that source $1 has the identity $2 and the receipt $3. The row is written where that is news.
insert into postrider.dlq_source as s (source, source_uuid, receipt) values ($1, $2, $3)
on conflict (source) do update set source_uuid = coalesce(s.source_uuid, excluded.source_uuid), receipt = greatest(s.receipt, excluded.receipt)
where s.receipt < excluded.receipt or s.source_uuid is null
