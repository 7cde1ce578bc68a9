-- Has inserts notify no more, leaves a mark that says since when, and tells the other relays. Returns the mark.
select set_config('synchronous_commit', 'off', true), setval('postrider.outbox_notifier', -notifier.now),
       pg_notify('postrider_outbox', 'disarmed')
from (select floor(extract(epoch from clock_timestamp()) * 1000)::bigint as now offset 0) notifier
