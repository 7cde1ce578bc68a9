select postrider.retry_task($1, nullif($2, ''))
