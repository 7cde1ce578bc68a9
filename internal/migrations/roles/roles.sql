-- Roles with the least rights that each part of Postrider needs. Run it as the owner of the schema
-- postrider, with the right to create roles, after every `postrider migrate up`; running it again
-- changes nothing. The roles cannot log in. Grant them to roles that can:
--
--     grant postrider_writer to orders_service;
--
-- Roles belong to the whole server, their rights to this database alone. A login that should write
-- in one database only is kept out of the others by CONNECT.

begin;

-- Two databases of one server may run this at the same time.
do $$
declare
    wanted record;
begin
    for wanted in select * from (values
        ('postrider_writer', 'Postrider: services that write events, register tasks and do them, and read no table'),
        ('postrider_relay', 'Postrider: postrider serve, whatever its roles'),
        ('postrider_operator', 'Postrider: people who look at everything, treat what failed and act on tasks')) w(role, purpose)
    loop
        if not exists (select from pg_catalog.pg_roles where rolname = wanted.role) then
            begin
                execute format('create role %I nologin', wanted.role);
                execute format('comment on role %I is %L', wanted.role, wanted.purpose);
            exception when duplicate_object or unique_violation then
                null; -- another session made it just now
            end;
        end if;
    end loop;
end
$$;

-- Rights of earlier versions go first. No other transaction sees them gone.
revoke all on all tables in schema postrider from postrider_writer, postrider_relay, postrider_operator;
revoke all on all sequences in schema postrider from postrider_writer, postrider_relay, postrider_operator;
revoke all on all functions in schema postrider from postrider_writer, postrider_relay, postrider_operator;
revoke all on schema postrider from postrider_writer, postrider_relay, postrider_operator;
grant usage on schema postrider to postrider_writer, postrider_relay, postrider_operator;

-- Writers: the functions, which run with the owner's rights, and a plain insert of the columns that
-- are theirs to say. The id and the identity are not, and nothing can be read back.
grant execute on function postrider.outbox_publish(text, text, jsonb, jsonb, text, timestamptz, uuid) to postrider_writer;
grant execute on function postrider.outbox_publish_bytes(text, text, bytea, jsonb, text, timestamptz, uuid) to postrider_writer;
grant execute on function postrider.outbox_publish_bytes(text, bytea, bytea, jsonb, text, timestamptz, uuid) to postrider_writer;
grant insert (topic, key, payload, headers, available_at, task_uuid) on postrider.outbox_event to postrider_writer;
-- An insert reads it. PUBLIC has this right, unless a restore or an administrator took it away.
grant select on sequence postrider.outbox_notifier to postrider_writer;
-- Services register their work, hand it out and do it.
grant execute on function postrider.create_task(text, text, jsonb, text, integer, jsonb, text, uuid, text),
    postrider.transition_task_state_atomic(uuid, text, text, jsonb), postrider.evaluate_task(uuid),
    postrider.get_next_ready_tasks(integer, text, integer, integer, integer, integer, integer), postrider.get_ready_steps(uuid),
    postrider.enqueue_step(uuid), postrider.start_step(uuid, text), postrider.complete_step(uuid, jsonb, integer),
    postrider.fail_step(uuid, text, boolean, interval, integer), postrider.cancel_task(uuid, text, text),
    postrider.worker_heartbeat(text, text), postrider.task_snapshot(uuid, boolean) to postrider_writer;

-- Relay and collector: they change what they carry and record what they meet. Into the outbox they insert nothing
-- themselves: lifecycle events, letters of tasks and redrives are written by functions, which know what may be written.
-- Locking a row takes the right to update its table.
grant select on postrider.schema_migration, postrider.v_outbox_event, postrider.outbox_progress, postrider.outbox_leader to postrider_relay;
-- The log is read, and deleted by the functions of retention alone.
grant select on postrider.outbox_event to postrider_relay;
grant select on sequence postrider.outbox_event_id_seq to postrider_relay;
grant select, usage on sequence postrider.outbox_hold_hold_id_seq to postrider_relay;
grant select, update on sequence postrider.outbox_notifier to postrider_relay;
grant select, insert on postrider.outbox_receipt to postrider_relay;
grant select, insert, update, delete on postrider.outbox_hold, postrider.outbox_exception to postrider_relay;
grant select, update, delete on postrider.outbox_skip_request to postrider_relay;
grant select, update on postrider.outbox_retention to postrider_relay;
grant select, insert, update, delete on postrider.outbox_own_topic to postrider_relay;
grant insert on postrider.outbox_write_probe to postrider_relay;
grant execute on function postrider.outbox_assert_leader(bigint), postrider.outbox_exhaust(bigint, text), postrider.outbox_event_id(),
    postrider.outbox_purge_events(interval, integer, boolean), postrider.outbox_purge_exceptions(interval, integer, boolean),
    postrider.outbox_purge_keys(interval, integer, boolean), postrider.outbox_merge_receipts(interval, integer),
    postrider.outbox_give_up(bigint), postrider.outbox_find_event(uuid) to postrider_relay;
grant select, insert on postrider.outbox_task_event to postrider_relay;
grant select, insert, update on postrider.dlq_entry, postrider.dlq_letter to postrider_relay;
grant select, insert on postrider.dlq_group to postrider_relay;
grant execute on function postrider.outbox_max_payload_bytes(), postrider.uuid_generate_v7(),
    postrider.outbox_release(bigint), postrider.outbox_release_keys(bigint[]), postrider.outbox_skip(bigint, text),
    postrider.outbox_redrive(bigint) to postrider_relay;
-- Figures for metrics.
grant select on sequence postrider.tasker_tasks_discovered to postrider_relay;
-- The archiver.
grant execute on function postrider.archive_completed_tasks(integer, integer, boolean, boolean, boolean, boolean, boolean, timestamptz, uuid),
    postrider.refresh_dashboards(integer, integer, integer, integer, interval) to postrider_relay;

-- Giving up an event moves the task that it belongs to, at once or soon after.
grant execute on function postrider.outbox_tell_tasks(bigint[]), postrider.task_events_catch_up(integer) to postrider_relay;
-- The detector of stale tasks. What serve writes for the functions of the ledger when it starts, and what detectors
-- note and pause.
grant execute on function
    postrider.detect_and_transition_stale_tasks(boolean, integer, integer, integer, integer, integer, integer, boolean, boolean, boolean, boolean, boolean),
    postrider.near_stale_tasks(double precision, integer, integer, integer, integer, integer) to postrider_relay;
grant select, update on postrider.tasker_settings, postrider.tasker_detector to postrider_relay;

-- The desk, which postrider serve runs: keys, the audit log, which is only added to, and answers; investigations and
-- redrives, whose messages enter the outbox by functions; tasks and templates, by functions.
grant select on all tables in schema postrider to postrider_relay;
grant insert, update on postrider.access_key to postrider_relay;
grant insert, update, delete on postrider.access_link, postrider.access_session to postrider_relay;
-- When and by which login the defaults say.
grant insert (actor, key_id, action, target_type, target_id, request_id, details)
    on postrider.access_audit to postrider_relay;
grant insert, update, delete on postrider.access_answer to postrider_relay;
grant update, delete on postrider.dlq_entry to postrider_relay;
grant insert, update on postrider.dlq_group to postrider_relay;
grant insert, update, delete on postrider.dlq_operation, postrider.dlq_operation_item to postrider_relay;
grant update, delete on postrider.dlq_redrive to postrider_relay;
grant execute on function postrider.dlq_redrive_letters(text[], uuid[], text[], jsonb[], boolean, bytea, text), postrider.dlq_amend(text, boolean, bytea, jsonb),
    postrider.dlq_complete_letter(text, text, bytea, bytea, jsonb, uuid, jsonb, jsonb), postrider.outbox_standing(bigint[], uuid[]), postrider.outbox_look(bigint, uuid), postrider.apply_template(jsonb, jsonb), postrider.apply_namespace(text, jsonb, text),
    postrider.create_task(text, text, jsonb, text, integer, jsonb, text, uuid, text), postrider.step_action(uuid, uuid, text, text, text, jsonb),
    postrider.cancel_task(uuid, text, text), postrider.retry_task(uuid, text), postrider.unflag_task(uuid, text, text),
    postrider.dead_letter_task(uuid, text, text), postrider.archive_on_read(uuid, interval), postrider.task_snapshot(uuid, boolean),
    postrider.tasks_only_retry_moves(uuid[]) to postrider_relay;
-- As people do it by hand.
grant execute on function postrider.dlq_note_redrives(uuid, text, uuid[], text[], bigint[], uuid[], boolean[], integer[], text[], boolean[]),
    postrider.dlq_change_entry(uuid, text, text, text, jsonb, text, text), postrider.dlq_purge_entries(uuid[]),
    postrider.dlq_resolve_group(uuid, timestamptz, integer, text, text, text), postrider.dlq_lock_group(uuid),
    postrider.dlq_merge_groups(uuid, uuid, integer, text), postrider.dlq_split_group(uuid, uuid[], text[], integer, jsonb, text, text, text),
    postrider.dlq_change_group(uuid, text, text, text, timestamptz), postrider.dlq_insert_operation(text, text, text, text, jsonb, jsonb),
    postrider.dlq_freeze_operation(uuid, timestamptz, uuid[], uuid[], text, text, text, text, text, text, text, timestamptz, timestamptz, text, text, text, uuid[]),
    postrider.dlq_plan_operation(uuid, bigint[]), postrider.dlq_lock_operation(uuid), postrider.dlq_command_operation(uuid, text, boolean),
    postrider.access_revoke_key(text), postrider.access_purge_audit(interval, integer), postrider.detectors_pause(text, text, double precision), postrider.detectors_resume() to postrider_relay;

-- Operators: they read everything, and what they change they change by functions with the owner's rights, which know
-- what may be changed when.
grant select on all tables in schema postrider to postrider_operator;
grant execute on function postrider.outbox_look(bigint, uuid), postrider.dlq_group_state(text, timestamptz, timestamptz, bigint) to postrider_operator;
-- What `postrider outbox release`, `skip` and `redrive` do: functions with the owner's rights, which know when
-- each is allowed and take the locks that it needs. Nothing else of an event or a hold is theirs to change.
grant execute on function postrider.outbox_release(bigint), postrider.outbox_release_keys(bigint[]), postrider.outbox_skip(bigint, text), postrider.outbox_redrive(bigint),
    postrider.outbox_give_up(bigint), postrider.outbox_find_event(uuid) to postrider_operator;
-- `postrider template apply` and `postrider template namespace`.
grant execute on function postrider.apply_template(jsonb, jsonb), postrider.apply_namespace(text, jsonb, text) to postrider_operator;
-- The ledger: they see all of it, create and cancel tasks, and act on steps.
grant execute on function postrider.create_task(text, text, jsonb, text, integer, jsonb, text, uuid, text),
    postrider.transition_task_state_atomic(uuid, text, text, jsonb), postrider.evaluate_task(uuid),
    postrider.step_action(uuid, uuid, text, text, text, jsonb), postrider.cancel_task(uuid, text, text),
    postrider.worker_heartbeat(text, text), postrider.get_ready_steps(uuid), postrider.task_snapshot(uuid, boolean) to postrider_operator;
-- They retry tasks, end their flags, dead-letter them by hand, and read them, which may archive them.
grant execute on function postrider.retry_task(uuid, text), postrider.unflag_task(uuid, text, text), postrider.dead_letter_task(uuid, text, text), postrider.archive_on_read(uuid, interval), postrider.read_task(uuid),
    postrider.tasks_only_retry_moves(uuid[]) to postrider_operator;
-- They archive by hand, and look at dashboards.
grant execute on function postrider.archive_completed_tasks(integer, integer, boolean, boolean, boolean, boolean, boolean, timestamptz, uuid),
    postrider.refresh_dashboards(integer, integer, integer, integer, interval),
    postrider.task_staleness_now(integer, integer, integer, integer), postrider.dlq_retry_numbers(), postrider.dlq_retry_figures() to postrider_operator;

-- `postrider task detect-stale` and `postrider task detector pause` and `resume`.
grant execute on function
    postrider.detect_and_transition_stale_tasks(boolean, integer, integer, integer, integer, integer, integer, boolean, boolean, boolean, boolean, boolean)
    to postrider_operator;
grant execute on function postrider.detectors_pause(text, text, double precision), postrider.detectors_resume() to postrider_operator;

-- The desk by hand: `postrider dlq requeue`, `dlq resolve`, `dlq purge`, `op`, and what people write about groups. The
-- messages enter the outbox by a function, which takes letters of pending investigations only, marks what it sends with
-- the investigation's id, and takes another payload where a message is edited. `postrider dlq fetch` completes letters by
-- a function that fills in the missing parts. Every change is written to the audit log, which is only added to, or is not
-- committed (access_owe). Locking a row takes the right to update one of its columns.
grant update (updated_at) on postrider.dlq_entry to postrider_operator;
grant execute on function postrider.dlq_note_redrives(uuid, text, uuid[], text[], bigint[], uuid[], boolean[], integer[], text[], boolean[]),
    postrider.dlq_change_entry(uuid, text, text, text, jsonb, text, text), postrider.dlq_purge_entries(uuid[]),
    postrider.dlq_resolve_group(uuid, timestamptz, integer, text, text, text), postrider.dlq_lock_group(uuid),
    postrider.dlq_merge_groups(uuid, uuid, integer, text), postrider.dlq_split_group(uuid, uuid[], text[], integer, jsonb, text, text, text),
    postrider.dlq_change_group(uuid, text, text, text, timestamptz), postrider.dlq_insert_operation(text, text, text, text, jsonb, jsonb),
    postrider.dlq_freeze_operation(uuid, timestamptz, uuid[], uuid[], text, text, text, text, text, text, text, timestamptz, timestamptz, text, text, text, uuid[]),
    postrider.dlq_plan_operation(uuid, bigint[]), postrider.dlq_lock_operation(uuid), postrider.dlq_command_operation(uuid, text, boolean)
    to postrider_operator;
grant insert (actor, key_id, action, target_type, target_id, request_id, details)
    on postrider.access_audit to postrider_operator;
grant execute on function postrider.dlq_redrive_letters(text[], uuid[], text[], jsonb[], boolean, bytea, text), postrider.dlq_amend(text, boolean, bytea, jsonb),
    postrider.dlq_complete_letter(text, text, bytea, bytea, jsonb, uuid, jsonb, jsonb), postrider.outbox_standing(bigint[], uuid[]) to postrider_operator;
-- `postrider apikey revoke`. A login that makes keys decides who may do what, so operators cannot make them.
grant execute on function postrider.access_revoke_key(text) to postrider_operator;

commit;
