-- The groups with investigations that have the reason in one word, or that are of the sources $2, or both. An empty word and null sources are any.
select g.dlq_group_uuid from postrider.dlq_group g
where ($1::text = '' or g.word = $1) and ($2::text[] is null or g.source = any ($2)) and g.entries > 0
