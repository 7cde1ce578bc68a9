-- The groups with investigations that have the reason in one word.
select g.dlq_group_uuid from postrider.dlq_group g where g.word = $1 and g.entries > 0
