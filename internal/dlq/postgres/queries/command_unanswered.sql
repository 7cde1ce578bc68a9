-- What source $1 is yet to answer, in order: $2 commands at most, and as many as fit into $3 bytes, though one at least.
select u.command
from (
    select c.number,
           (c.request || jsonb_build_object('command', c.dlq_command_uuid, 'kind', c.kind, 'entry', c.dlq_entry_uuid, 'outbox_id', c.outbox_id,
                'event_id', c.event_id, 'episode', c.episode, 'actor', c.actor))::text as command,
           sum(pg_column_size(c.request)) over (order by c.number) - pg_column_size(c.request) as before
    from (select * from postrider.dlq_command c where c.source = $1 and c.answered_at is null order by c.number limit $2) c
) u
where u.before = 0 or u.before < $3::bigint
order by u.number
