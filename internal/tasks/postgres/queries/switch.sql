-- A pause whose end has come does not count, even if its row still has it.
select coalesce(p.paused, false), case when p.paused then s.paused_at end, case when p.paused then coalesce(s.paused_by, '') else '' end,
       case when p.paused then coalesce(s.pause_reason, '') else '' end, case when p.paused then s.resume_at end
from postrider.tasker_switch s
cross join lateral (select s.paused_at is not null and (s.resume_at is null or s.resume_at > clock_timestamp()) as paused) p
where s.engine = $1
