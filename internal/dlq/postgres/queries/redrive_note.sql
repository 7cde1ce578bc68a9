-- Redrives of investigations, each the next of its own. Nothing of an investigation changes.
select postrider.dlq_note_redrives($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)
