-- A group, and the groups that were merged into it.
select g.dlq_group_uuid, g.fingerprint, g.fingerprint_version, g.parts, g.title, g.topic, g.word,
       postrider.dlq_group_state(g.state, g.muted_until, g.created_at, g.pending), g.muted_until, g.total, g.entries, g.pending,
       g.occurrences, g.first_seen_at, g.last_seen_at, g.resolved_through, g.last_entry_uuid, g.assignee, g.note, g.created_at, g.updated_at,
       (select f.dlq_group_uuid from postrider.dlq_fingerprint f where f.fingerprint = g.fingerprint) as merged_into, g.source
from postrider.dlq_group g
where g.dlq_group_uuid = $1
   or g.fingerprint = any (array(select f.fingerprint from postrider.dlq_fingerprint f where f.dlq_group_uuid = $1))
order by g.dlq_group_uuid <> $1, g.dlq_group_uuid
