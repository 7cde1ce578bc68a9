-- Removes the $2 commands that were answered first, if that is longer ago than $1 microseconds.
with old as materialized (
    select c.dlq_command_uuid from postrider.dlq_command c
    where c.answered_at < now() - $1::bigint * interval '1 microsecond'
    order by c.answered_at limit $2 for update skip locked
)
delete from postrider.dlq_command c where c.dlq_command_uuid = any (array(select o.dlq_command_uuid from old o))
