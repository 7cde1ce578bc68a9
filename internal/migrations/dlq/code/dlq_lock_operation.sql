create or replace function postrider.dlq_lock_operation(p_operation uuid) returns setof postrider.dlq_operation
language sql volatile security definer set search_path = pg_catalog, pg_temp as $$
    select * from postrider.dlq_operation o where o.dlq_operation_uuid = p_operation for update
$$;
comment on function postrider.dlq_lock_operation(uuid) is 'Locks an operation, and returns how it stands then.';
revoke all on function postrider.dlq_lock_operation(uuid) from public;
