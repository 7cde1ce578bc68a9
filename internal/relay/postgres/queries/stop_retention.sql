update postrider.outbox_retention set stopped_at = clock_timestamp(), reason = $1 where kind = 'published' and stopped_at is null
