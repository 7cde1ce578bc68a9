select postrider.cancel_task($1::uuid, $2::text, $3::text)
