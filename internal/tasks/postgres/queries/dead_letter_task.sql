select postrider.dead_letter_task($1::uuid, $2::text, $3::text)
