select d.paused_at, coalesce(d.paused_by, ''), coalesce(d.pause_reason, ''), d.resume_at from postrider.tasker_detector d
