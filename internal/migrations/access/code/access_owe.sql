create or replace function postrider.access_owe(p_service boolean default false) returns void
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp as $$
declare
    taken name := coalesce(nullif(current_setting('role'), 'none'), session_user); -- the role that was taken on; not the one of this function
begin
    -- A service owes nothing. A login is a service's if it may take steps of tasks, which operators may not. It is a
    -- service's, too, if it may not write to the audit log: then it was not given the rights of an operator.
    if p_service and (has_function_privilege(session_user, to_regprocedure('postrider.start_step(uuid, text)'), 'execute')
                      or has_function_privilege(taken, to_regprocedure('postrider.start_step(uuid, text)'), 'execute')
                      or not (has_any_column_privilege(session_user, 'postrider.access_audit', 'insert')
                              or has_any_column_privilege(taken, 'postrider.access_audit', 'insert'))) then
        return;
    end if;
    -- Not of the owner and of serve, which may write the tables as they like anyway. They alone keep answers.
    if not has_table_privilege(session_user, 'postrider.access_answer', 'delete') and not has_table_privilege(taken, 'postrider.access_answer', 'delete') then
        insert into postrider.access_due (transaction_id) values (default) on conflict do nothing;
    end if;
end $$;
comment on function postrider.access_owe(boolean) is
'If the login has the rights of an operator, demands that the transaction has written to the audit log when it is committed. The functions by which people change things call it. Functions that services call as well call it with p_service: then it demands nothing of a service.';
revoke all on function postrider.access_owe(boolean) from public;
