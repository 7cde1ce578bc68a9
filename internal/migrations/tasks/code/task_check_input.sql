-- By the part of JSON Schema that templates may use.
create or replace function postrider.task_check_input(p_schema jsonb, p_value jsonb) returns void
language plpgsql immutable set search_path = pg_catalog, pg_temp as $$
declare
    v_bad text;
begin
    begin
        v_bad := postrider.task_schema_error(p_schema, p_value, '$');
    exception when invalid_regular_expression or invalid_text_representation or invalid_parameter_value or statement_too_complex then
        v_bad := 'the input_schema itself cannot be used: ' || sqlerrm;
    end;
    if v_bad is not null then
        raise exception using errcode = '22023', message = 'postrider: the context does not fit the template''s input_schema: ' || v_bad;
    end if;
end $$;
comment on function postrider.task_check_input(jsonb, jsonb) is 'Internal. Raises 22023 with the path and what was expected when a task''s context does not fit its template''s input_schema.';
revoke all on function postrider.task_check_input(jsonb, jsonb) from public;
