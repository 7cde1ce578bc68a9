select r.stopped_at, coalesce(r.reason, '') from postrider.outbox_retention r where r.kind = 'published'
