-- Writes about a group. Whoever acts on a new one makes it ongoing.
update postrider.dlq_group g
set note = case when $2::text is null then g.note else nullif($2::text, '') end,
    assignee = case when $3::text is null then g.assignee else nullif($3::text, '') end,
    state = $4, muted_until = $5, updated_at = now()
where g.dlq_group_uuid = $1
