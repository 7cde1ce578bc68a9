create or replace function postrider.access_owe(p_actions text[], p_type text, p_ids text[] default '{""}', p_service boolean default false) returns void
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp as $$
declare
    taken name := coalesce(nullif(current_setting('role'), 'none'), session_user); -- the role that was taken on; not the one of this function
begin
    -- A service owes nothing. A login is a service's if it may take steps of tasks, which operators may not. It is a
    -- service's, too, if it may not write to the audit log: then it was not given the rights of an operator. Where there are no tasks, the first
    -- question has no answer, and the second decides.
    if p_service and (has_function_privilege(session_user, to_regprocedure('postrider.start_step(uuid, text)'), 'execute')
                      or has_function_privilege(taken, to_regprocedure('postrider.start_step(uuid, text)'), 'execute')
                      or not (has_any_column_privilege(session_user, 'postrider.access_audit', 'insert')
                              or has_any_column_privilege(taken, 'postrider.access_audit', 'insert'))) then
        return;
    end if;
    if postrider.access_by_hand() then
        insert into postrider.access_due (actions, target_type, target_ids) values (p_actions, p_type, p_ids);
    end if;
end $$;
comment on function postrider.access_owe(text[], text, text[], boolean) is
'If the login has the rights of an operator, demands that the transaction has written to the audit log, when it is committed, that this login did one of the actions to all of these things: in one row or in several (access_settle). Without ids it was done to no thing in particular. The functions by which people change things call it, once each, with what they changed. Functions that services call as well call it with p_service: then it demands nothing of a service.';
revoke all on function postrider.access_owe(text[], text, text[], boolean) from public;
