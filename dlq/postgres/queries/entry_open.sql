-- One row per subject, in an order that every collector keeps: opens an investigation, or adds the
-- letters to the pending one. Returns the given uuid for an opened one, and its own for another.
insert into postrider.dlq_entry as e (
    dlq_entry_uuid, subject_type, subject_id, original_state, dlq_reason, dlq_timestamp, topic,
    error_code, error_message, occurrences, last_occurred_at, snapshot, metadata, predecessor_uuid)
select n.dlq_entry_uuid, n.subject_type, n.subject_id, n.original_state, n.dlq_reason::postrider.dlq_reason,
       coalesce(n.dlq_timestamp, now()), nullif(n.topic, ''), nullif(n.error_code, ''), nullif(n.error_message, ''),
       n.letters, coalesce(n.last_occurred_at, now()), n.snapshot::jsonb,
       nullif(n.metadata, '')::jsonb,
       (select closed.dlq_entry_uuid
        from postrider.dlq_entry closed
        where closed.subject_type = n.subject_type and closed.subject_id = n.subject_id
          and closed.resolution_status <> 'pending'
        order by closed.created_at desc, closed.dlq_entry_uuid desc
        limit 1)
from unnest($1::uuid[], $2::text[], $3::text[], $4::text[], $5::text[], $6::timestamptz[], $7::text[],
            $8::text[], $9::text[], $10::integer[], $11::timestamptz[], $12::text[], $13::text[]) with ordinality
    as n (dlq_entry_uuid, subject_type, subject_id, original_state, dlq_reason, dlq_timestamp, topic,
          error_code, error_message, letters, last_occurred_at, snapshot, metadata, place)
order by n.place
on conflict (subject_type, subject_id) where resolution_status = 'pending'
do update set occurrences = e.occurrences + excluded.occurrences,
              last_occurred_at = greatest(e.last_occurred_at, excluded.last_occurred_at),
              updated_at = now()
returning e.dlq_entry_uuid, e.subject_type, e.subject_id
