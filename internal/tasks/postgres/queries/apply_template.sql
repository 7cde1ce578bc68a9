select postrider.apply_template($1::jsonb, $2::jsonb)
