-- group_hold
-- Locks groups in the order in which everybody locks them.
select from postrider.dlq_group where dlq_group_uuid = any ($1::uuid[]) order by dlq_group_uuid for no key update
