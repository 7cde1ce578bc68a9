-- Changes an event that was redriven in its place by this transaction. -1 and -2 are explained at the function.
select postrider.dlq_amend($1, $2, $3, $4::text::jsonb)
