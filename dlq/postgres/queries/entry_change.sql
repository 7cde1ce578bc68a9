-- Closing says who did it, the one who asks unless somebody else is named. Metadata: JSON null takes it away.
update postrider.dlq_entry e
set resolution_status = coalesce($2::postrider.dlq_resolution_status, e.resolution_status),
    resolution_timestamp = case when $2::text is not null then now() else e.resolution_timestamp end,
    resolution_notes = coalesce($3, e.resolution_notes),
    resolved_by = coalesce($4, case when $2::text is not null then $7::text end, e.resolved_by),
    metadata = case when $5::jsonb is null then e.metadata else nullif($5::jsonb, 'null') end,
    assignee = case when $6::text is null then e.assignee else nullif($6::text, '') end,
    updated_at = now()
where e.dlq_entry_uuid = $1
