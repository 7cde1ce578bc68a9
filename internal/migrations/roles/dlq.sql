-- The desk, which postrider serve runs: investigations and redrives, whose messages enter the outbox by functions; tasks and
-- templates, by functions.
grant select on all tables in schema postrider to postrider_relay;
-- The collector records what it meets.
grant insert, update, delete on postrider.dlq_entry to postrider_relay;
grant insert, update on postrider.dlq_letter, postrider.dlq_group to postrider_relay;
grant insert, update, delete on postrider.dlq_operation, postrider.dlq_operation_item to postrider_relay;
grant update, delete on postrider.dlq_redrive, postrider.dlq_command to postrider_relay;
-- What it sees of sources.
grant insert, update on postrider.dlq_source to postrider_relay;
grant execute on function postrider.dlq_forget_source(text), postrider.dlq_rejoin_source(text, uuid, bigint, bigint, uuid[], jsonb) to postrider_relay, postrider_operator;
grant execute on function postrider.uuid_generate_v7(), postrider.dlq_refuse_items(uuid[], uuid[], text[]) to postrider_relay;
grant execute on function postrider.dlq_redrive_letters(text[], uuid[], text[], jsonb[], boolean, bytea, text), postrider.dlq_amend(text, boolean, bytea, jsonb),
    postrider.dlq_complete_letter(text, text, bytea, bytea, jsonb, uuid, jsonb, jsonb), postrider.outbox_look(bigint, uuid), postrider.apply_template(jsonb, jsonb), postrider.apply_namespace(text, jsonb, text),
    postrider.create_task(text, text, jsonb, text, integer, jsonb, text, uuid, text), postrider.step_action(uuid, uuid, text, text, text, jsonb),
    postrider.cancel_task(uuid, text, text), postrider.retry_task(uuid, text), postrider.unflag_task(uuid, text, text),
    postrider.dead_letter_task(uuid, text, text), postrider.archive_on_read(uuid, interval), postrider.task_snapshot(uuid, boolean),
    postrider.tasks_only_retry_moves(uuid[]), postrider.tasks_archived(uuid[]) to postrider_relay;
-- As people do it by hand.
grant execute on function postrider.outbox_release(bigint), postrider.outbox_release_keys(bigint[]), postrider.outbox_skip(bigint, text),
    postrider.outbox_redrive(bigint), postrider.outbox_give_up(bigint), postrider.outbox_find_event(uuid) to postrider_relay;
grant execute on function postrider.dlq_note_redrives(uuid, text, uuid[], text[], bigint[], uuid[], boolean[], integer[], text[], boolean[]),
    postrider.dlq_ask_source(uuid, text, uuid[], text[], uuid[], text[], boolean[], jsonb[]), postrider.dlq_ask_release(text, uuid[], text[]),
    postrider.dlq_change_entry(uuid, text, text, text, jsonb, text, text), postrider.dlq_purge_entries(uuid[]),
    postrider.dlq_resolve_group(uuid, timestamptz, integer, text, text, text), postrider.dlq_lock_group(uuid),
    postrider.dlq_merge_groups(uuid, uuid, integer, text), postrider.dlq_split_group(uuid, uuid[], text[], integer, jsonb, text, text, text),
    postrider.dlq_change_group(uuid, text, text, text, timestamptz),
    postrider.dlq_insert_comment(uuid, uuid, text, text, text), postrider.dlq_delete_comment(uuid, uuid, bigint, text, text), postrider.dlq_insert_operation(text, text, text, text, jsonb, jsonb, text[]),
    postrider.dlq_freeze_operation(uuid, timestamptz, uuid[], uuid[], text, text, text, text, text, text, text, timestamptz, timestamptz, text, text, text, uuid[]),
    postrider.dlq_plan_operation(uuid, bigint[], jsonb), postrider.dlq_lock_operation(uuid), postrider.dlq_command_operation(uuid, text, boolean),
    postrider.engine_resume(text) to postrider_relay;

-- Operators look at the dashboards of the desk.
grant execute on function postrider.dlq_group_state(text, timestamptz, timestamptz, bigint), postrider.dlq_retry_numbers(), postrider.dlq_retry_figures() to postrider_operator;
-- The desk by hand: `postrider dlq requeue`, `dlq resolve`, `dlq purge`, `op`, and what people write about groups. The
-- messages enter the outbox by a function, which takes letters of pending investigations only, marks what it sends with
-- the investigation's id, and takes another payload where a message is edited. `postrider dlq fetch` completes letters by
-- a function that fills in the missing parts. Every change is written to the audit log, or is not committed (access_owe).
-- Locking a row takes the right to update one of its columns; the update itself is refused (dlq_entry_lock_only).
grant update (updated_at) on postrider.dlq_entry to postrider_operator;
grant execute on function postrider.dlq_note_redrives(uuid, text, uuid[], text[], bigint[], uuid[], boolean[], integer[], text[], boolean[]),
    postrider.dlq_ask_source(uuid, text, uuid[], text[], uuid[], text[], boolean[], jsonb[]), postrider.dlq_ask_release(text, uuid[], text[]),
    postrider.dlq_change_entry(uuid, text, text, text, jsonb, text, text), postrider.dlq_purge_entries(uuid[]),
    postrider.dlq_resolve_group(uuid, timestamptz, integer, text, text, text), postrider.dlq_lock_group(uuid),
    postrider.dlq_merge_groups(uuid, uuid, integer, text), postrider.dlq_split_group(uuid, uuid[], text[], integer, jsonb, text, text, text),
    postrider.dlq_change_group(uuid, text, text, text, timestamptz),
    postrider.dlq_insert_comment(uuid, uuid, text, text, text), postrider.dlq_delete_comment(uuid, uuid, bigint, text, text), postrider.dlq_insert_operation(text, text, text, text, jsonb, jsonb, text[]),
    postrider.dlq_freeze_operation(uuid, timestamptz, uuid[], uuid[], text, text, text, text, text, text, text, timestamptz, timestamptz, text, text, text, uuid[]),
    postrider.dlq_plan_operation(uuid, bigint[], jsonb), postrider.dlq_lock_operation(uuid), postrider.dlq_command_operation(uuid, text, boolean)
    to postrider_operator;
grant execute on function postrider.dlq_redrive_letters(text[], uuid[], text[], jsonb[], boolean, bytea, text), postrider.dlq_amend(text, boolean, bytea, jsonb),
    postrider.dlq_complete_letter(text, text, bytea, bytea, jsonb, uuid, jsonb, jsonb) to postrider_operator;

