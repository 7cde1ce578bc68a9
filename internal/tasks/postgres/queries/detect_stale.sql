select task_uuid, namespace_name, task_name, current_state, time_in_state_minutes, staleness_threshold_minutes, action_taken,
       moved_to_dlq, transition_success, threshold_kind, threshold_source, dlq_reason::text, task_age_seconds
from postrider.detect_and_transition_stale_tasks($1::boolean, $2::integer, $3::integer, $4::integer, $5::integer, $6::integer,
    $7::integer, $8::boolean, $9::boolean, $10::boolean, $11::boolean, $12::boolean)
