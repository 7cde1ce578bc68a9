-- Which of the sources $1 have something to be asked: commands that they have not answered, or redrives whose outcome is looked
-- for.
select w.name
from unnest($1::text[]) as w(name)
where (select true from postrider.dlq_command c where c.source = w.name and c.answered_at is null limit 1)
   or (select true from postrider.dlq_redrive r where r.source = w.name and r.outcome is null and r.outbox_id > 0 limit 1)
