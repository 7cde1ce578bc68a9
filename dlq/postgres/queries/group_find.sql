-- The groups that have these fingerprints.
select fingerprint, dlq_group_uuid from postrider.dlq_group where fingerprint = any ($1::text[])
