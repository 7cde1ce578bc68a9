-- group_find
-- The groups that have these fingerprints, and whether they had investigations and none is pending now.
select fingerprint, dlq_group_uuid, pending = 0 and last_entry_uuid is not null
from postrider.dlq_group where fingerprint = any ($1::text[])
