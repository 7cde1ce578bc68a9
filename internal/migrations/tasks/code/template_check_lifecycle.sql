create or replace function postrider.template_check_lifecycle(p_lifecycle jsonb, p_whose text) returns void
language plpgsql immutable set search_path = pg_catalog, pg_temp as $$
declare
    v_key   text;
    v_value jsonb;
begin
    if jsonb_typeof(p_lifecycle) <> 'object' then
        perform postrider.template_refuse(format('the lifecycle of %s is not an object', p_whose));
    end if;
    for v_key, v_value in select key, value from jsonb_each(p_lifecycle) loop
        if v_key ~ '^max_.+_minutes$' then
            if jsonb_typeof(v_value) <> 'number' or v_value::text !~ '^[1-9][0-9]{0,6}$' or v_value::text::integer > 5256000 then
                perform postrider.template_refuse(format('lifecycle.%s of %s is %s; it must be a whole number from 1 to 5256000', v_key, p_whose, v_value));
            end if;
        elsif v_key = 'staleness_action' then
            if v_value not in ('"dlq"', '"error"', '"manual_review"') then
                perform postrider.template_refuse(format('lifecycle.staleness_action of %s is %s; it must be dlq, error or manual_review', p_whose, v_value));
            end if;
        elsif v_key in ('auto_fail_on_timeout', 'auto_dlq_on_timeout') then
            if jsonb_typeof(v_value) <> 'boolean' then
                perform postrider.template_refuse(format('lifecycle.%s of %s is %s; it must be true or false', v_key, p_whose, v_value));
            end if;
        else
            perform postrider.template_refuse(format('lifecycle.%s of %s is not known', v_key, p_whose));
        end if;
    end loop;
end $$;
comment on function postrider.template_check_lifecycle(jsonb, text) is
'Internal. Refuses a lifecycle that the detector could not read, with error 22023.';
revoke all on function postrider.template_check_lifecycle(jsonb, text) from public;
