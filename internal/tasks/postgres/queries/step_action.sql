select postrider.step_action($1::uuid, $2::uuid, $3::text, $4::text, $5::text, $6::jsonb)
