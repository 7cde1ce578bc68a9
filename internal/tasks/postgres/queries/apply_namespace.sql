select postrider.apply_namespace($1, $2::jsonb, $3)
