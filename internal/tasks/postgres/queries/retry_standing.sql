-- Where each of these tasks stands, in their order, and from which states its machine retries.
select i.id, coalesce(k.state, ''), coalesce(m.name, ''), coalesce(m.retryable_states, '{}'),
       k.task_uuid is null and exists (select from postrider.tasker_tasks_archive a where a.task_uuid = i.id)
from unnest($1::uuid[]) with ordinality i(id, n)
left join (postrider.tasker_tasks k
           join postrider.tasker_named_tasks n using (named_task_uuid)
           join postrider.tasker_state_machines m using (state_machine_id)) on k.task_uuid = i.id
order by i.n
