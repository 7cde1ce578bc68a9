-- Writes into an investigation; $2 closes it. An empty object takes the metadata away.
select postrider.dlq_change_entry($1, $2, $3, $4, $5, $6, $7)
