select event_id, episode, topic, attempts, coalesce(error_code, ''), coalesce(error_message, ''), outcome, detail, noted_at
from postrider.tasker_undelivered_events where task_uuid = $1::uuid order by noted_at desc, event_id limit $2::integer
