-- Shards with events that wait for a retry further ahead than $1 microseconds. One that waits for the time
-- that its writer named waits for that.
select s.shard from postrider.outbox_shard s
where (select true from postrider.outbox_event e
       where e.shard = s.shard and e.state = 'scheduled' and e.next_attempt_at <> e.available_at
         and e.next_attempt_at > (select clock_timestamp()) + $1::bigint * interval '1 microsecond' limit 1)
order by s.shard
