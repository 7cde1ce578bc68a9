-- The outbox.

-- Writers: the functions, which run with the owner's rights, and a plain insert of the columns that
-- are theirs to say. The id and the identity are not, and nothing can be read back.
grant execute on function postrider.outbox_publish(text, text, jsonb, jsonb, text, timestamptz, uuid) to postrider_writer;
grant execute on function postrider.outbox_publish_bytes(text, text, bytea, jsonb, text, timestamptz, uuid) to postrider_writer;
grant execute on function postrider.outbox_publish_bytes(text, bytea, bytea, jsonb, text, timestamptz, uuid) to postrider_writer;
grant insert (topic, key, payload, headers, available_at, task_uuid, partition, timestamp) on postrider.outbox_event to postrider_writer;
-- An insert reads it. PUBLIC has this right, unless a restore or an administrator took it away.
grant select on sequence postrider.outbox_notifier to postrider_writer;

-- The relay: it changes what it carries and records what it meets. Into the outbox it inserts nothing itself: lifecycle
-- events, letters of tasks and redrives are written by functions, which know what may be written. Locking a row takes the
-- right to update its table.
grant select on postrider.v_outbox_event, postrider.outbox_progress, postrider.outbox_leader to postrider_relay;
-- The log is read, and deleted by the functions of retention alone.
grant select on postrider.outbox_event, postrider.outbox_idempotency_key to postrider_relay;
grant select on sequence postrider.outbox_event_id_seq to postrider_relay;
grant select, usage on sequence postrider.outbox_hold_hold_id_seq to postrider_relay;
grant select, update on sequence postrider.outbox_notifier to postrider_relay;
grant select, insert on postrider.outbox_receipt, postrider.outbox_task_event to postrider_relay;
grant select, insert, update, delete on postrider.outbox_hold, postrider.outbox_exception to postrider_relay;
grant select, update, delete on postrider.outbox_skip_request to postrider_relay;
grant select, update on postrider.outbox_retention to postrider_relay;
grant select, insert, update, delete on postrider.outbox_own_topic, postrider.outbox_attempt_rule to postrider_relay;
grant insert on postrider.outbox_write_probe to postrider_relay;
grant select on postrider.outbox_source to postrider_relay;
-- What the doctor says of cutovers that did not end.
grant select on postrider.outbox_forward, postrider.outbox_held_event to postrider_relay;
grant execute on function postrider.outbox_name_source(text, text) to postrider_relay;
grant execute on function postrider.outbox_assert_leader(bigint), postrider.outbox_exhaust(bigint, text), postrider.outbox_event_id(),
    postrider.outbox_purge_events(interval, integer, boolean), postrider.outbox_purge_exceptions(interval, integer, boolean),
    postrider.outbox_purge_keys(interval, integer, boolean), postrider.outbox_merge_receipts(interval, integer),
    postrider.outbox_max_payload_bytes() to postrider_relay;
-- What the desk commands, and how events stand, asked by the process that carries this outbox and has the desk's database.
grant execute on function postrider.outbox_obey(text, jsonb, bigint, bigint), postrider.outbox_standing(bigint[], uuid[]) to postrider_relay;
-- `postrider sources rejoin`: what was obeyed, and where the database is.
grant execute on function postrider.outbox_obeyed(uuid[], text[], bigint[], uuid[], integer[]), postrider.access_find_commands(text, bigint),
    postrider.outbox_place(), postrider.outbox_rejoin(text, text) to postrider_relay;
-- Giving up an event moves the task that it belongs to, where there are tasks.
grant execute on function postrider.outbox_tell_tasks(bigint[]) to postrider_relay;

-- Operators.
grant execute on function postrider.outbox_look(bigint, uuid), postrider.outbox_find_event(uuid), postrider.outbox_standing(bigint[], uuid[]) to postrider_operator;
-- What `postrider outbox release`, `skip` and `redrive` do: functions with the owner's rights, which know when
-- each is allowed and take the locks that it needs. Nothing else of an event or a hold is theirs to change.
grant execute on function postrider.outbox_release(bigint), postrider.outbox_release_keys(bigint[]), postrider.outbox_skip(bigint, text), postrider.outbox_redrive(bigint),
    postrider.outbox_give_up(bigint) to postrider_operator;

