-- There is no index by topic, and there need not be one: the newest events tell what is in use, and what is held
-- says so by itself.
select t.topic, bool_or(t.waits)
from ((select e.topic, e.state in ('pending', 'scheduled', 'parked') as waits
       from postrider.outbox_event e order by e.id desc limit 10000)
      union all
      select h.topic, true from postrider.outbox_hold h where h.scope <> 'dead_letter') t
group by t.topic
order by t.topic
