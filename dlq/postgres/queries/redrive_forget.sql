-- Of redrives that ended, those whose investigation was purged while they were on their way.
delete from postrider.dlq_replay r
using unnest($1::text[]) as w(id)
where r.replay_id = w.id and not exists (select from postrider.dlq_entry e where e.dlq_entry_uuid = r.dlq_entry_uuid)
