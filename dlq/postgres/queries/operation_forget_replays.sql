-- Redrives stay as long as their investigation, and forget which operation made them.
update postrider.dlq_replay r set dlq_operation_uuid = null
from (select replay_id from postrider.dlq_replay where dlq_operation_uuid = $1 limit $2) w
where r.replay_id = w.replay_id
