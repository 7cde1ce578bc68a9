select n.updated_at
from postrider.tasker_task_namespaces ns
join postrider.tasker_named_tasks n using (task_namespace_uuid)
where ns.name = $1 and n.name = $2 and n.version = $3
