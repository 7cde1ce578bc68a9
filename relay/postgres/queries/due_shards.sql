-- Shards with scheduled events whose time has come. A scalar subquery: see lock_shards; and one around the
-- clock, because a function that may change from row to row is no condition for an index.
select s.shard from postrider.outbox_shard s
where (select true from postrider.outbox_event e
       where e.shard = s.shard and e.state = 'scheduled' and e.next_attempt_at <= (select clock_timestamp()) limit 1)
order by s.shard
