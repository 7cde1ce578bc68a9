create or replace function postrider.dlq_event_closed(event_id uuid, episode integer) returns boolean
language sql stable parallel safe set search_path = pg_catalog, pg_temp as $$
    with letter as (
        select l.dlq_entry_uuid from postrider.dlq_letter l
         where l.letter_id = 'event:' || dlq_event_closed.event_id || ':' || dlq_event_closed.episode
        union all
        select l.dlq_entry_uuid from postrider.dlq_letter l
         where l.event_id = dlq_event_closed.event_id and l.episode = dlq_event_closed.episode and l.letter_id like 'task:%'
    )
    select exists (select from letter)
       and not exists (select from letter l join postrider.dlq_entry e using (dlq_entry_uuid) where e.resolution_status = 'pending')
       and not exists (select from postrider.dlq_entry e
                       where e.subject_type = 'event' and e.subject_id = dlq_event_closed.event_id::text
                         and e.resolution_status = 'pending')
$$;
comment on function postrider.dlq_event_closed(uuid, integer) is
'Whether nobody needs the outbox row of a dead-lettered event any more: the dead letter of this episode is recorded, and neither its investigation nor another of the event is pending. False when in doubt. This is how the purge of outbox events asks without knowing the tables of investigations.';
