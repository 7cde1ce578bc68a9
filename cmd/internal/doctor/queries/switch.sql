-- A pause whose end has come does not count, even if its row still has it.
select s.paused_at, coalesce(s.paused_by, ''), coalesce(s.pause_reason, ''), s.resume_at from postrider.tasker_switch s
where s.engine = $1 and s.paused_at is not null and (s.resume_at is null or s.resume_at > clock_timestamp())
