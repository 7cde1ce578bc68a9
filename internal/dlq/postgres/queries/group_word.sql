-- The groups with investigations that have the reason in one word, or that are of a source, or both. Empty is any.
select g.dlq_group_uuid from postrider.dlq_group g
where ($1::text = '' or g.word = $1) and ($2::text = '' or g.source = $2) and g.entries > 0
