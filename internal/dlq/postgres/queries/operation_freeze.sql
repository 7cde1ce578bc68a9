-- The scope of an operation. Named investigations are in it as they are; a group or a filter selects investigations of
-- status $14 opened until $2.
select postrider.dlq_freeze_operation($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14)
