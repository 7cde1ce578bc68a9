select ns.task_namespace_uuid, ns.name, ns.description, ns.lifecycle, ns.created_at, ns.updated_at
from postrider.tasker_task_namespaces ns
where $1::text is null or ns.name = $1
order by ns.name
