-- How many holds there are by scope, cause, topic and code, and the age of the oldest of them in seconds. Three kinds are
-- counted apart, up to $1 each, so that many of one kind hide none of the others: topics, partitions and circuit breakers;
-- other holds that wait for a probe; other holds that wait for an operator.
with wide as (
    select h.scope, h.cause, h.topic, coalesce(h.code, h.error_code, '') as code, h.held_at from postrider.outbox_hold h
    where h.scope in ('topic', 'partition', 'failure') limit $1::int
), due as (
    select h.scope, h.cause, h.topic, coalesce(h.code, h.error_code, '') as code, h.held_at from postrider.outbox_hold h
    where h.next_probe_at < 'infinity' order by h.next_probe_at limit $1::int
), waiting as (
    select h.scope, h.cause, h.topic, coalesce(h.code, h.error_code, '') as code, h.held_at from postrider.outbox_hold h
    where h.next_probe_at = 'infinity' limit $1::int
), held as (
    select w.* from wide w
    union all
    select d.* from due d where d.scope in ('key', 'dead_letter')
    union all
    select w.* from waiting w where w.scope in ('key', 'dead_letter')
)
select h.scope, h.cause, h.topic, h.code, count(*), greatest(extract(epoch from clock_timestamp() - min(h.held_at)), 0)::float8
from held h
group by h.scope, h.cause, h.topic, h.code
order by h.scope, h.cause, h.topic, h.code
