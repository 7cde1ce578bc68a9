-- One row per namespace that has the template: the version asked for, or the highest by its numbers.
select distinct on (ns.name)
       n.named_task_uuid, ns.name, n.name, n.version, n.description, m.name, n.configuration, n.created_at, n.updated_at
from postrider.tasker_named_tasks n
join postrider.tasker_task_namespaces ns using (task_namespace_uuid)
join postrider.tasker_state_machines m using (state_machine_id)
where ($1::text is null or ns.name = $1) and n.name = $2 and ($3::text is null or n.version = $3)
order by ns.name, case when n.version ~ '^[0-9]{1,9}(\.[0-9]{1,9}){0,3}$' then string_to_array(n.version, '.')::bigint[] end desc nulls last, n.version desc
