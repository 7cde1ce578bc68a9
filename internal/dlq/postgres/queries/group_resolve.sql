-- Closes the oldest pending investigations of a group that were opened until $2, except if a redrive is on its way.
select e.id from postrider.dlq_resolve_group($1, $2, $3, $4, $5, $6) e(id)
