drop function postrider.task_dead_letter(uuid, postrider.dlq_reason, text, integer, text, text, jsonb);
drop function postrider.task_snapshot_cut(jsonb, boolean);
drop function postrider.task_snapshot(uuid, boolean);
drop function postrider.transition_task_state_atomic(uuid, text, text, jsonb);
drop function postrider.task_machine_allows(integer, text);
drop function postrider.task_move(uuid, text, jsonb);
drop function postrider.task_start_event(uuid);
drop function postrider.task_event(uuid, text, jsonb);
drop function postrider.task_event_headers(uuid, text, text, text, uuid, timestamptz);
