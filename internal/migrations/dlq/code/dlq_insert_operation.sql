create or replace function postrider.dlq_insert_operation(p_kind text, p_name text, p_reason text, p_actor text, p_scope jsonb, p_options jsonb, p_sources text[] default '{*}')
returns table (dlq_operation_uuid uuid, created_at timestamptz)
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp as $$
#variable_conflict use_column
begin
    if jsonb_typeof(p_scope) is distinct from 'object' or jsonb_typeof(p_options) is distinct from 'object' then
        raise exception using errcode = '22023', message = 'postrider: scope and options of an operation must be JSON objects';
    end if;
    insert into postrider.dlq_operation as o (kind, name, reason, actor, state, scope, options, sources)
    values (p_kind, p_name, nullif(p_reason, ''), p_actor, 'planned', p_scope, p_options, p_sources)
    returning o.dlq_operation_uuid, o.created_at into dlq_operation_uuid, created_at;
    perform postrider.access_owe('{operation.plan}', 'operation', array[dlq_operation_uuid::text]);
    return next;
end $$;
comment on function postrider.dlq_insert_operation(text, text, text, text, jsonb, jsonb, text[]) is
'Writes an operation that is planned, without a scope: dlq_freeze_operation and dlq_plan_operation follow in the same transaction. The last argument are the sources of its scope, sorted; {*} is any.';
revoke all on function postrider.dlq_insert_operation(text, text, text, text, jsonb, jsonb, text[]) from public;
