select postrider.start_step($1::uuid, $2::text)
