-- The topics that have exhausted events which are due, one index lookup each, and the dead-letter topics
-- that are held. An event or a hold whose time is more than $1 microseconds away is due: the clock
-- was put back.
with recursive t(topic) as (
    (select e.topic from postrider.outbox_exception e where e.state = 'exhausted' order by e.topic limit 1)
    union all
    select (select e.topic from postrider.outbox_exception e
            where e.state = 'exhausted' and e.topic > t.topic order by e.topic limit 1)
    from t where t.topic is not null)
select t.topic, false from t
where t.topic is not null
  and ((select true from postrider.outbox_exception e
        where e.state = 'exhausted' and e.topic = t.topic
          and coalesce(e.next_attempt_at, '-infinity'::timestamptz) <= (select clock_timestamp()) limit 1)
    or (select true from postrider.outbox_exception e
        where e.state = 'exhausted' and e.topic = t.topic
          and coalesce(e.next_attempt_at, '-infinity'::timestamptz) > (select clock_timestamp()) + $1::bigint * interval '1 microsecond' limit 1))
union all
select h.topic, true from postrider.outbox_hold h
where h.scope = 'dead_letter' and h.next_probe_at > (select clock_timestamp())
  and h.next_probe_at <= (select clock_timestamp()) + $1::bigint * interval '1 microsecond'
