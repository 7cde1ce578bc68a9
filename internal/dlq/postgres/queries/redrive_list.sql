-- The newest redrives of an investigation.
select r.redrive_id, r.generation, r.dlq_operation_uuid, r.event_id, r.outbox_id, r.in_place, r.target, r.edited, r.actor,
       coalesce(r.outcome, 'queued'), r.created_at, r.finished_at
from postrider.dlq_redrive r
where r.dlq_entry_uuid = $1
order by r.generation desc limit $2
