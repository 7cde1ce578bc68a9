select month, tasks_archived, steps_archived, transitions_archived, complete, error, cancelled, dlq_resolved, archive_size, archive_bytes, last_archived_at
from postrider.v_archive_statistics
order by month desc
