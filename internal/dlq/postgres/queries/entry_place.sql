-- The time by which investigation $1 is listed: of its last change if $2, otherwise of its opening.
select case when $2::boolean then e.updated_at else e.created_at end from postrider.dlq_entry e where e.dlq_entry_uuid = $1::uuid
