-- What the summary says of live tasks, unless it is too old to be of use.
select s.as_of, coalesce(r.current_state, ''), coalesce(r.task_count, 0)::bigint, coalesce(r.stale, 0)::bigint
from (select 1) one
left join postrider.dashboard_summary s on s.name = 'staleness' and s.as_of > statement_timestamp() - interval '5 minutes' and s.as_of <= statement_timestamp()
left join lateral jsonb_to_recordset(s.content) as r(current_state text, task_count bigint, stale bigint) on true
