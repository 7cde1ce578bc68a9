-- Locks a group, and says where it stands.
select postrider.dlq_group_state(g.state, g.muted_until, g.created_at, g.pending), g.pending
from postrider.dlq_group g where g.dlq_group_uuid = $1 for no key update
