-- These investigations, in this order, without their snapshots.
select e.dlq_entry_uuid, e.subject_type, e.subject_id, e.original_state, e.dlq_reason::text, e.dlq_timestamp,
       e.resolution_status::text, e.resolution_timestamp, e.resolution_notes, e.resolved_by, e.topic, e.error_code,
       e.error_message, e.occurrences, e.last_occurred_at, e.predecessor_uuid, null::jsonb as snapshot, e.metadata,
       e.created_at, e.updated_at, e.dlq_group_uuid, e.attempts, coalesce(r.generation, 0), e.assignee,
       case when r.generation > 0 then coalesce(r.outcome, 'queued') end, e.root_cause, e.root_frame, e.fingerprint, e.fingerprint_exact,
       (select g.word from postrider.dlq_group g where g.dlq_group_uuid = e.dlq_group_uuid), e.task_uuid, e.error_category, e.source
from unnest($1::uuid[]) with ordinality as w (id, place)
join postrider.dlq_entry e on e.dlq_entry_uuid = w.id
left join lateral (
    select r.generation, r.outcome from postrider.dlq_redrive r
    where r.dlq_entry_uuid = e.dlq_entry_uuid order by r.generation desc limit 1) r on true
order by w.place
