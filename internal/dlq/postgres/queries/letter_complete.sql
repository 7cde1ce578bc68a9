select postrider.dlq_complete_letter($1, $2, $3, $4, $5::jsonb, $6, $7::jsonb, $8::jsonb)
