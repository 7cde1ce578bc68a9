-- Shards with scheduled events whose time has come. A scalar subquery: see lock_shards.
select s.shard from postrider.outbox_shard s
where (select true from postrider.outbox_event e
       where e.shard = s.shard and e.state = 'scheduled' and e.next_attempt_at <= clock_timestamp() limit 1)
order by s.shard
