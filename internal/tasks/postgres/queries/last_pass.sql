select d.last_pass_at, coalesce(d.last_pass_by, ''), coalesce(d.last_pass_ms, 0), coalesce(d.last_pass_stale, 0), coalesce(d.last_pass_dry_run, false),
       (select to_jsonb(s) - 'only_row' from postrider.tasker_settings s)
from postrider.tasker_detector d
