select postrider.complete_step($1::uuid, $2::jsonb, $3::integer)
