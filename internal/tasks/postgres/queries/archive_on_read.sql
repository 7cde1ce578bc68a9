select postrider.archive_on_read($1::uuid)
