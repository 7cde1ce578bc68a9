create or replace function postrider.task_max_attempts(p_task_uuid uuid) returns integer
language sql stable set search_path = pg_catalog, pg_temp as 'select null::integer';
drop function postrider.read_task(uuid);
drop function postrider.archive_on_read(uuid, interval);
drop function postrider.dead_letter_task(uuid, text, text);
drop function postrider.retry_task(uuid, text);
drop function postrider.task_events_catch_up(integer);
create or replace function postrider.task_events_dead_lettered(p_event_ids bigint[]) returns integer
language sql volatile set search_path = pg_catalog, pg_temp as 'select 0';
drop function postrider.task_event_given_up(bigint, integer);
drop function postrider.task_event_note(bigint, integer, text, text);
drop function postrider.task_event_undelivered(uuid, uuid, integer, text, integer, text, text, text, integer, timestamptz);
drop function postrider.task_state_kind(integer, text);
drop table postrider.tasker_undelivered_events;
