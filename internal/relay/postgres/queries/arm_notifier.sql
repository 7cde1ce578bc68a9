-- Has inserts notify for the next $1 seconds. Left alone while another relay was busy less than $3 milliseconds ago
-- ($2 is the mark that this relay left), and where transactions can be prepared: one that notified cannot.
-- A sequence is not rolled back and has no row versions. Only its WAL record needs a commit, and no session waits for it.
select set_config('synchronous_commit', 'off', true),
       case when current_setting('max_prepared_transactions')::int > 0 then 'two-phase'
            when notifier.mark < 0 and notifier.mark <> $2::bigint and -notifier.mark > notifier.now - $3::bigint then 'busy'
            when setval('postrider.outbox_notifier', greatest(notifier.mark, notifier.now / 1000 + $1::bigint)) > 0 then 'armed'
       end
from (select coalesce(pg_sequence_last_value('postrider.outbox_notifier'::regclass), 0) as mark,
             floor(extract(epoch from clock_timestamp()) * 1000)::bigint as now offset 0) notifier
