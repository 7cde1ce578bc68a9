select postrider.worker_heartbeat($1::text, $2::text)
