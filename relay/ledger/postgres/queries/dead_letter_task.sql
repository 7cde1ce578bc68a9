select postrider.dead_letter_task($1, $2, nullif($3, ''))
