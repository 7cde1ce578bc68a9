select task_uuid, namespace_name, task_name, state, priority, computed_priority, ready_steps
from postrider.get_next_ready_tasks($1::integer, $2::text, $3::integer, $4::integer, $5::integer, $6::integer, $7::integer)
