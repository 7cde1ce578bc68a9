-- group_find
-- The groups in which investigations with these fingerprints are opened: the group that people named, otherwise the one
-- that has the fingerprint. And whether they had investigations and none is pending now. Each is looked up by its key,
-- whatever statistics say.
select w.fingerprint, g.dlq_group_uuid, g.pending = 0 and g.last_entry_uuid is not null
from unnest($1::text[]) as w (fingerprint)
cross join lateral (
    select coalesce((select f.dlq_group_uuid from postrider.dlq_fingerprint f where f.fingerprint = w.fingerprint),
                    (select o.dlq_group_uuid from postrider.dlq_group o where o.fingerprint = w.fingerprint)) as id offset 0) d
cross join lateral (
    select o.dlq_group_uuid, o.pending, o.last_entry_uuid from postrider.dlq_group o where o.dlq_group_uuid = d.id limit 1) g
