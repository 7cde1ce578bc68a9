-- Locks a group, and says where it stands.
select g.state, g.pending from postrider.dlq_lock_group($1) g
