-- Puts investigations of a group into the group of the first of the fingerprints, and the ones to come with any of these.
select postrider.dlq_split_group($1, $2, $3, $4, $5::jsonb, $6, $7, $8)
