-- How long, in microseconds, until the first scheduled event is due or the first hold is; null when there is none. A hold that waits for somebody is due when they say so.
select (extract(epoch from least(
    (select min((select e.next_attempt_at from postrider.outbox_event e
                 where e.shard = s.shard and e.state = 'scheduled' order by e.next_attempt_at limit 1))
     from postrider.outbox_shard s),
    (select h.next_probe_at from postrider.outbox_hold h where h.scope <> 'dead_letter' and h.next_probe_at < 'infinity' order by h.next_probe_at limit 1))
    - clock_timestamp()) * 1000000)::bigint
