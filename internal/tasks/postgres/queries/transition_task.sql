select postrider.transition_task_state_atomic($1::uuid, $2::text, $3::text, $4::jsonb)
