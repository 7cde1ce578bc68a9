-- Shards with scheduled events whose time has come.
select s.shard from postrider.outbox_shard s
where exists (select from postrider.outbox_event e
              where e.shard = s.shard and e.state = 'scheduled' and e.next_attempt_at <= clock_timestamp())
order by s.shard
