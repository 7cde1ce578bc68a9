-- Redrives stay as long as their investigation, and forget which operation made them.
update postrider.dlq_redrive r set dlq_operation_uuid = null
from (select redrive_id from postrider.dlq_redrive where dlq_operation_uuid = $1 limit $2) w
where r.redrive_id = w.redrive_id
