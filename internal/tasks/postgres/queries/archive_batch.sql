select tasks_archived, steps_archived, transitions_archived, complete_archived, error_archived, cancelled_archived, dlq_resolved_archived,
       more, last_entered, last_task
from postrider.archive_completed_tasks($1, $2, $3, $4, $5, $6, $7, $8, $9)
