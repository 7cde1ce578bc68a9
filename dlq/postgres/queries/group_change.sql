-- Writes about a group. Whoever acts on a new one makes it ongoing.
select postrider.dlq_change_group($1, $2, $3, $4, $5)
