-- One row per subject, in an order that every collector keeps: opens an investigation, or adds the
-- letters to the pending one. Returns the given uuid for an opened one, and its own for another. A new one names
-- the closed one of its subject; or the last one of its group, where that comes back after all of it was closed.
insert into postrider.dlq_entry as e (
    dlq_entry_uuid, subject_type, subject_id, original_state, dlq_reason, dlq_timestamp, topic,
    error_code, error_message, occurrences, last_occurred_at, snapshot, metadata, dlq_group_uuid, attempts,
    root_cause, root_frame, fingerprint, fingerprint_exact, task_uuid, consumer_group, dlq_topic, error_category, source, predecessor_uuid)
select n.dlq_entry_uuid, n.subject_type, n.subject_id, n.original_state, n.dlq_reason::postrider.dlq_reason,
       coalesce(n.dlq_timestamp, now()), nullif(n.topic, ''), nullif(n.error_code, ''), nullif(n.error_message, ''),
       n.letters, coalesce(n.last_occurred_at, now()), n.snapshot::jsonb,
       nullif(n.metadata, '')::jsonb, n.dlq_group_uuid, n.attempts, nullif(n.root_cause, ''), nullif(n.root_frame, ''),
       nullif(n.fingerprint, ''), nullif(n.fingerprint_exact, ''), n.task_uuid, nullif(n.consumer_group, ''), nullif(n.dlq_topic, ''), nullif(n.error_category, ''), n.source,
       coalesce((select closed.dlq_entry_uuid
        from postrider.dlq_entry closed
        where closed.subject_type = n.subject_type and closed.subject_id = n.subject_id
          and closed.resolution_status <> 'pending'
        order by closed.created_at desc, closed.dlq_entry_uuid desc
        limit 1),
       (select g.last_entry_uuid
        from postrider.dlq_group g
        where g.dlq_group_uuid = n.dlq_group_uuid and g.pending = 0 and g.resolved_through < coalesce(n.last_occurred_at, now())
          and g.state <> 'muted'
          and exists (select from postrider.dlq_entry p where p.dlq_entry_uuid = g.last_entry_uuid)))
from unnest($1::uuid[], $2::text[], $3::text[], $4::text[], $5::text[], $6::timestamptz[], $7::text[],
            $8::text[], $9::text[], $10::integer[], $11::timestamptz[], $12::text[], $13::text[],
            $14::uuid[], $15::integer[], $16::text[], $17::text[], $18::text[], $19::text[], $20::uuid[], $21::text[], $22::text[], $23::text[], $24::text[]) with ordinality
    as n (dlq_entry_uuid, subject_type, subject_id, original_state, dlq_reason, dlq_timestamp, topic,
          error_code, error_message, letters, last_occurred_at, snapshot, metadata, dlq_group_uuid, attempts, root_cause, root_frame,
          fingerprint, fingerprint_exact, task_uuid, consumer_group, dlq_topic, error_category, source, place)
order by n.place
on conflict (subject_type, subject_id) where resolution_status = 'pending'
do update set occurrences = e.occurrences + excluded.occurrences,
              last_occurred_at = greatest(e.last_occurred_at, excluded.last_occurred_at),
              attempts = coalesce(excluded.attempts, e.attempts),
              updated_at = now()
returning e.dlq_entry_uuid, e.subject_type, e.subject_id
