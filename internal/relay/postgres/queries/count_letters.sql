-- How many events of each topic are on their way to a dead-letter topic, up to 100001 each.
with recursive t(topic) as (
    (select e.topic from postrider.outbox_exception e where e.state = 'exhausted' order by e.topic limit 1)
    union all
    select (select e.topic from postrider.outbox_exception e
            where e.state = 'exhausted' and e.topic > t.topic order by e.topic limit 1)
    from t where t.topic is not null)
select t.topic, (select count(*) from (select from postrider.outbox_exception e where e.state = 'exhausted' and e.topic = t.topic
    limit 100001) counted)
from t where t.topic is not null
