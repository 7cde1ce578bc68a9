-- The state that somebody wants. What made it halt is not counted again.
update postrider.dlq_operation
set state = $2, updated_at = now(), next_at = null,
    started_at = case when $2 in ('running', 'canary') then coalesce(started_at, now()) else started_at end,
    finished_at = case when $2 = 'aborted' then coalesce(finished_at, now()) else finished_at end,
    options = case when $3::boolean then options || jsonb_build_object('forgiven', came_back, 'forgiven_delivered', delivered) else options end,
    error = case when $2 in ('running', 'canary') then null else error end
where dlq_operation_uuid = $1
