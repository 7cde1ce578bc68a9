-- Tasks.

-- Services register their work, hand it out and do it.
grant execute on function postrider.create_task(text, text, jsonb, text, integer, jsonb, text, uuid, text),
    postrider.transition_task_state_atomic(uuid, text, text, jsonb), postrider.evaluate_task(uuid),
    postrider.get_next_ready_tasks(integer, text, integer, integer, integer, integer, integer), postrider.get_ready_steps(uuid),
    postrider.enqueue_step(uuid), postrider.start_step(uuid, text), postrider.complete_step(uuid, jsonb, integer),
    postrider.fail_step(uuid, text, boolean, interval, integer), postrider.cancel_task(uuid, text, text),
    postrider.worker_heartbeat(text, text), postrider.task_snapshot(uuid, boolean) to postrider_writer;

-- Figures for metrics.
grant select on sequence postrider.tasker_tasks_discovered to postrider_relay;
grant select on postrider.dashboard_summary, postrider.tasker_archive_statistics, postrider.tasker_task_counts, postrider.tasker_switch to postrider_relay;
-- The archiver.
grant execute on function postrider.archive_completed_tasks(integer, integer, boolean, boolean, boolean, boolean, boolean, timestamptz, uuid),
    postrider.refresh_dashboards(integer, integer, integer, integer, interval) to postrider_relay;
-- Giving up an event moves the task that it belongs to, at once or soon after.
grant execute on function postrider.task_events_catch_up(integer) to postrider_relay;
-- The detector of stale tasks. What serve writes for the functions of the ledger when it starts, and what detectors
-- note.
grant execute on function
    postrider.detect_and_transition_stale_tasks(boolean, integer, integer, integer, integer, integer, integer, boolean, boolean, boolean, boolean, boolean),
    postrider.near_stale_tasks(double precision, integer, integer, integer, integer, integer), postrider.near_stale_task_ids(uuid[], text) to postrider_relay;
grant select, update on postrider.tasker_settings, postrider.tasker_detector to postrider_relay;
-- A detector pauses all detectors when the database is too slow for them.
grant execute on function postrider.engine_pause(text, text, text, double precision) to postrider_relay;

-- Operators. `postrider template apply` and `postrider template namespace`.
grant execute on function postrider.apply_template(jsonb, jsonb), postrider.apply_namespace(text, jsonb, text) to postrider_operator;
-- The ledger: they see all of it, create and cancel tasks, and act on steps.
grant execute on function postrider.create_task(text, text, jsonb, text, integer, jsonb, text, uuid, text),
    postrider.transition_task_state_atomic(uuid, text, text, jsonb), postrider.evaluate_task(uuid),
    postrider.step_action(uuid, uuid, text, text, text, jsonb), postrider.cancel_task(uuid, text, text),
    postrider.worker_heartbeat(text, text), postrider.get_ready_steps(uuid), postrider.task_snapshot(uuid, boolean) to postrider_operator;
-- They retry tasks, end their flags, dead-letter them by hand, and read them, which may archive them.
grant execute on function postrider.retry_task(uuid, text), postrider.unflag_task(uuid, text, text), postrider.dead_letter_task(uuid, text, text), postrider.archive_on_read(uuid, interval), postrider.read_task(uuid),
    postrider.tasks_only_retry_moves(uuid[]), postrider.tasks_archived(uuid[]) to postrider_operator;
-- They archive by hand, and look at dashboards.
grant execute on function postrider.archive_completed_tasks(integer, integer, boolean, boolean, boolean, boolean, boolean, timestamptz, uuid),
    postrider.refresh_dashboards(integer, integer, integer, integer, interval),
    postrider.task_staleness_now(integer, integer, integer, integer), postrider.near_stale_task_ids(uuid[], text) to postrider_operator;
-- `postrider task detect-stale`; `postrider task detector` and `postrider archive`, `pause` and `resume`.
grant execute on function
    postrider.detect_and_transition_stale_tasks(boolean, integer, integer, integer, integer, integer, integer, boolean, boolean, boolean, boolean, boolean)
    to postrider_operator;
grant execute on function postrider.engine_pause(text, text, text, double precision), postrider.engine_resume(text) to postrider_operator;

