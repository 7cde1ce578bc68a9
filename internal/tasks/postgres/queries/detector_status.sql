-- A pause whose end has come does not count, even if its row still has it.
select coalesce(p.paused, false), case when p.paused then d.paused_at end, case when p.paused then coalesce(d.paused_by, '') else '' end,
       case when p.paused then coalesce(d.pause_reason, '') else '' end, case when p.paused then d.resume_at end,
       d.last_pass_at, coalesce(d.last_pass_by, ''), coalesce(d.last_pass_ms, 0), coalesce(d.last_pass_stale, 0), coalesce(d.last_pass_dry_run, false)
from postrider.tasker_detector d
cross join lateral (select d.paused_at is not null and (d.resume_at is null or d.resume_at > clock_timestamp()) as paused) p
