-- Notes what a source answered: of the commands $1 the answers $2, the events $3 that carry what was redriven, and details $4. Busy is
-- no answer. A redrive that the source refused was none: its row goes, and the investigation is as it was. The first answer
-- stays; it is asked for in words that no partial index has, as in redrive_end. Returned are the refused redrives of operations.
with told as materialized (
    select * from unnest($1::uuid[], $2::text[], $3::bigint[], $4::text[]) as w(id, answer, event, detail)
), busy as (
    update postrider.dlq_command c set busy_at = clock_timestamp()
    from told w where w.answer = 'busy' and c.dlq_command_uuid = w.id and num_nulls(c.answered_at) = 1
), answered as (
    update postrider.dlq_command c set answered_at = clock_timestamp(), answer = w.answer, detail = nullif(w.detail, ''),
        request = c.request - '{payload, headers, unreadable_headers}'::text[]
    from told w where w.answer <> 'busy' and c.dlq_command_uuid = w.id and num_nulls(c.answered_at) = 1
    returning c.redrive_id, c.event_id, c.episode, c.answer, w.event
), sent as (
    update postrider.dlq_redrive r set outbox_id = a.event, in_place = a.answer = 'in_place',
        event_id = case a.answer when 'in_place' then a.event_id else r.event_id end,
        episode = case a.answer when 'in_place' then a.episode else 0 end
    from answered a where a.answer in ('in_place', 'new') and r.redrive_id = a.redrive_id
), refused as (
    delete from postrider.dlq_redrive r using answered a
    where a.redrive_id is not null and a.answer not in ('in_place', 'new') and r.redrive_id = a.redrive_id
    returning r.dlq_operation_uuid, r.dlq_entry_uuid, a.answer
)
select r.dlq_operation_uuid, r.dlq_entry_uuid, r.answer from refused r where r.dlq_operation_uuid is not null
