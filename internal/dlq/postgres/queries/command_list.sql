-- The newest commands before number $1, $2 at most, of the sources $3 and with an answer ($4 answered) or without (waiting), where these
-- are not null or empty.
select c.dlq_command_uuid, c.number, c.source, c.kind, c.dlq_entry_uuid, coalesce(c.redrive_id, ''), c.outbox_id, c.event_id, c.episode, c.actor, c.created_at,
       c.answered_at, coalesce(c.answer, ''), coalesce(c.detail, '')
from postrider.dlq_command c
where ($1::bigint = 0 or c.number < $1) and ($3::text[] is null or c.source = any ($3))
  and ($4::text = '' or (c.answered_at is not null) = ($4 = 'answered'))
order by c.number desc limit $2
