select postrider.retry_task($1::uuid, $2::text)
