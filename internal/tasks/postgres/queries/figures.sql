-- How many tasks were handed out, and what the summary says of live tasks, unless it is too old to be of use.
select (select case when q.is_called then q.last_value else 0 end from postrider.tasker_tasks_discovered q),
       s.as_of, coalesce(r.current_state, ''), coalesce(r.task_count, 0)::bigint, coalesce(r.stale, 0)::bigint
from (select 1) one
left join postrider.dashboard_summary s on s.name = 'staleness' and s.as_of > statement_timestamp() - interval '5 minutes' and s.as_of <= statement_timestamp()
left join lateral jsonb_to_recordset(s.content) as r(current_state text, task_count bigint, stale bigint) on true
