-- What sources have answered of the commands $1.
select c.dlq_entry_uuid, c.answer, coalesce(c.detail, '')
from unnest($1::uuid[]) as w(id)
cross join lateral (select c.* from postrider.dlq_command c where c.dlq_command_uuid = w.id limit 1) c
where c.answered_at is not null
