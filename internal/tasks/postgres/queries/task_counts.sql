-- What was done with tasks since the schema exists. In this order, so that each process meets states in the same order.
select 'discovered' as kind, '' as state, '' as outcome, case when q.is_called then q.last_value else 0 end as tasks
from postrider.tasker_tasks_discovered q
union all
select 'archived', '', a.final_state, sum(a.tasks)::bigint from postrider.tasker_archive_statistics a group by a.final_state
union all
select c.kind, c.state, c.outcome, sum(c.tasks)::bigint from postrider.tasker_task_counts c group by c.kind, c.state, c.outcome
order by kind, state, outcome
