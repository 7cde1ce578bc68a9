-- Every state that a task can be in.
select coalesce(array_agg(distinct s.state order by s.state), '{}') from postrider.tasker_machine_states s
