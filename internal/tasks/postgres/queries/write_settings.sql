update postrider.tasker_settings s
   set lifecycle_topic = $1::text, dlq_topic = $2::text, event_channel = $3::text, include_full_task_snapshot = $4::boolean,
       reason_max_retries_exceeded = $5::boolean, reason_dependency_cycle_detected = $6::boolean, warn_percent = $7::integer
 where (s.lifecycle_topic, s.dlq_topic, s.event_channel, s.include_full_task_snapshot, s.reason_max_retries_exceeded,
        s.reason_dependency_cycle_detected, s.warn_percent)
       is distinct from ($1::text, $2::text, $3::text, $4::boolean, $5::boolean, $6::boolean, $7::integer)
