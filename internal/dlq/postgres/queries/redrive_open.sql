-- The $3 oldest redrives on their way in the outbox of source $4 after outbox id $1 and redrive id $2, but for the ones whose
-- source has not said yet which event carries them. Nothing is locked: a redrive that is
-- still on its way costs a read and no write.
select r.redrive_id, r.outbox_id, r.event_id, r.episode
from postrider.dlq_redrive r
where r.source = $4 and r.outcome is null and r.outbox_id > 0 and (r.outbox_id, r.redrive_id) > ($1::bigint, $2::text)
order by r.outbox_id, r.redrive_id limit $3
