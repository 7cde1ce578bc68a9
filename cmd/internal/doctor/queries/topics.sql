-- There is no index by topic, and there need not be one: the newest events tell which topics are in use, and an
-- event that waits is an exception or held.
select t.topic, bool_or(t.waits)
from ((select e.topic::text as topic, e.id > (select p.position from postrider.outbox_progress p) as waits
       from postrider.outbox_event e order by e.id desc limit 10000)
      union all
      (select x.topic, true from postrider.outbox_exception x where x.state = 'scheduled' order by x.next_attempt_at limit 10000)
      union all
      select h.topic, true from postrider.outbox_hold h where h.scope <> 'dead_letter') t
group by t.topic
order by t.topic
