-- The sources that this desk knows, with what it has of each: commands without an answer, and pending investigations.
select s.source, coalesce(s.stopped, ''), s.stopped_at, s.forgotten_at,
       (select count(*) from postrider.dlq_command c where c.source = s.source and c.answered_at is null), coalesce(g.pending, 0)
from postrider.dlq_source s
left join (select g.source, sum(g.pending)::bigint as pending from postrider.dlq_group g where g.pending > 0 group by g.source) g using (source)
order by s.source
