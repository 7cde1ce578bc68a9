select postrider.create_task($1::text, $2::text, coalesce($3::jsonb, '{}'), $4::text, $5::integer, $6::jsonb, $7::text, $8::uuid, $9::text)
