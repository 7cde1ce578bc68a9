-- Groups by their ids, in the order of the ids.
select g.dlq_group_uuid, g.fingerprint, g.fingerprint_version, g.parts, g.title, g.topic, g.word,
       postrider.dlq_group_state(g.state, g.muted_until, g.created_at, g.pending), g.muted_until, g.total, g.entries, g.pending,
       g.occurrences, g.first_seen_at, g.last_seen_at, g.resolved_through, g.last_entry_uuid, g.assignee, g.note, g.created_at, g.updated_at,
       (select f.dlq_group_uuid from postrider.dlq_fingerprint f where f.fingerprint = g.fingerprint) as merged_into, g.source
from postrider.dlq_group g where g.dlq_group_uuid = any ($1)
order by array_position($1::uuid[], g.dlq_group_uuid)
