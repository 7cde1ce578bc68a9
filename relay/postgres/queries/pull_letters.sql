-- Offers letters at once that wait further ahead than $1 microseconds, longer than any does: the clock was put
-- back since. Up to $2 of each topic, one index lookup for each topic; says how many. Those that somebody has in
-- hand get a new time anyway.
with recursive t(topic) as (
    (select e.topic from postrider.outbox_event e where e.state = 'exhausted' order by e.topic limit 1)
    union all
    select (select e.topic from postrider.outbox_event e
            where e.state = 'exhausted' and e.topic > t.topic order by e.topic limit 1)
    from t where t.topic is not null
), pulled as (
    update postrider.outbox_event e set next_attempt_at = null, updated_at = now()
    from t cross join lateral (
        select d.id from postrider.outbox_event d
        where d.state = 'exhausted' and d.topic = t.topic
          and coalesce(d.next_attempt_at, '-infinity'::timestamptz) > (select clock_timestamp()) + $1::bigint * interval '1 microsecond'
        order by coalesce(d.next_attempt_at, '-infinity'::timestamptz), d.id
        limit $2
        for update skip locked) far
    where e.id = any (array[far.id])
    returning e.id
)
select count(*) from pulled
