-- No row is returned where nothing changed. The selection in returning still sees the row as it was.
update postrider.tasker_settings s
   set lifecycle_topic = $1::text, dlq_topic = $2::text, event_channel = $3::text, include_full_task_snapshot = $4::boolean,
       reason_max_retries_exceeded = $5::boolean, reason_dependency_cycle_detected = $6::boolean, warn_percent = $7::integer,
       waiting_for_dependencies_minutes = $8::integer, waiting_for_retry_minutes = $9::integer, steps_in_process_minutes = $10::integer,
       task_max_lifetime_hours = $11::integer, worker_unavailable_minutes = $12::integer, auto_transition_to_error = $13::boolean,
       auto_move_to_dlq = $14::boolean, emit_events = $15::boolean, reason_staleness_timeout = $16::boolean, reason_worker_unavailable = $17::boolean
 where (s.lifecycle_topic, s.dlq_topic, s.event_channel, s.include_full_task_snapshot, s.reason_max_retries_exceeded,
        s.reason_dependency_cycle_detected, s.warn_percent, s.waiting_for_dependencies_minutes, s.waiting_for_retry_minutes, s.steps_in_process_minutes,
        s.task_max_lifetime_hours, s.worker_unavailable_minutes, s.auto_transition_to_error, s.auto_move_to_dlq, s.emit_events,
        s.reason_staleness_timeout, s.reason_worker_unavailable)
       is distinct from ($1::text, $2::text, $3::text, $4::boolean, $5::boolean, $6::boolean, $7::integer, $8::integer, $9::integer, $10::integer,
        $11::integer, $12::integer, $13::boolean, $14::boolean, $15::boolean, $16::boolean, $17::boolean)
returning (select to_jsonb(b) - 'only_row' from postrider.tasker_settings b), to_jsonb(s) - 'only_row'
