create or replace function postrider.task_schema_path(p_path text, p_key text) returns text
language sql immutable parallel safe set search_path = pg_catalog, pg_temp as $$
    select case when p_key ~ '^[A-Za-z_][A-Za-z0-9_]*$' then p_path || '.' || p_key else format('%s[%s]', p_path, to_jsonb(left(p_key, 100))) end
$$;
comment on function postrider.task_schema_path(text, text) is 'Internal. The path of a property: $.order.id, $.order["the id"].';
revoke all on function postrider.task_schema_path(text, text) from public;
