-- Merges a group into another: $3 investigations at most, and the ones to come.
select postrider.dlq_merge_groups($1, $2, $3, $4)
