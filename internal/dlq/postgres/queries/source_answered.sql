-- Commands of source $1 after number $2, $3 at most, which it says it has carried out, and which it still has the proofs of: these
-- stay 30 days at least.
select c.dlq_command_uuid, c.number, c.kind, c.dlq_entry_uuid, coalesce(c.redrive_id, ''), c.outbox_id, c.event_id, c.episode, c.actor, c.created_at, c.answered_at, c.answer,
       coalesce(r.outcome, '')
from postrider.dlq_command c
left join lateral (select r.outcome from postrider.dlq_redrive r where r.redrive_id = c.redrive_id limit 1) r on true
where c.source = $1 and c.number > $2 and c.answered_at > now() - interval '29 days' and c.answer in ('in_place', 'new', 'closed', 'released')
order by c.number limit $3
