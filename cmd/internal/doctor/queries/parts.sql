-- The parts of the schema that are there. Every login may ask, also one that may not read what the database says of itself.
-- Where nothing is there, nothing is known, and all are looked for.
select array_remove(array['outbox',
    case when a.nothing or to_regclass('postrider.tasker_settings') is not null then 'tasks' end,
    case when a.nothing or to_regclass('postrider.dlq_entry') is not null then 'desk' end], null)
from (select to_regclass('postrider.outbox_event') is null as nothing) a
