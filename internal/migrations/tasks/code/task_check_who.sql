create or replace function postrider.task_check_who(p_actor text, p_notes text default null) returns void
language plpgsql immutable set search_path = pg_catalog, pg_temp as $$
begin
    -- Both are copied into the history and the events of the task and of each of its steps.
    if octet_length(p_actor) > 256 then
        raise exception using errcode = '22023', message = format('postrider: the actor is %s bytes, it must be 256 at most; say who it is by a name', octet_length(p_actor));
    end if;
    if octet_length(p_notes) > 4096 then
        raise exception using errcode = '22023', message = format('postrider: the notes are %s bytes, they must be 4096 at most; keep longer text elsewhere and refer to it', octet_length(p_notes));
    end if;
end $$;
comment on function postrider.task_check_who(text, text) is 'Internal. Raises 22023 for an actor of more than 256 bytes, as worker_heartbeat does for a worker, and for notes of more than 4096.';
revoke all on function postrider.task_check_who(text, text) from public;
