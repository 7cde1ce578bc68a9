select postrider.unflag_task($1::uuid, $2::text, $3::text)
