-- Changes a group. An act on a new group makes it ongoing.
select postrider.dlq_change_group($1, $2, $3, $4, $5)
