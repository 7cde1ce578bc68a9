update postrider.outbox_event set attempts = attempts + 1, updated_at = now() where id = $1 returning attempts
