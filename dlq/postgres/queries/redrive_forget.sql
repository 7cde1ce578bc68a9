-- Of redrives that ended, those whose investigation was purged while they were on their way.
delete from postrider.dlq_replay r
where r.replay_id = any ($1::text[])
  and (select true from postrider.dlq_entry e where e.dlq_entry_uuid = r.dlq_entry_uuid limit 1) is null
