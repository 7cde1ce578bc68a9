create or replace function postrider.template_check_events(p_configuration jsonb, p_whose text) returns void
language plpgsql immutable set search_path = pg_catalog, pg_temp as $$
declare
    v_key   text;
    v_topic text;
begin
    foreach v_key in array array['events', 'start_event'] loop
        continue when not p_configuration ? v_key;
        v_topic := p_configuration->v_key->>'topic';
        if jsonb_typeof(p_configuration->v_key) <> 'object' or v_key = 'start_event' and v_topic is null
           or v_topic !~ '^[a-zA-Z0-9._-]{1,249}$' or v_topic in ('.', '..') then
            perform postrider.template_refuse(format('%s of %s needs a Kafka topic name as topic: %s', v_key, p_whose, left((p_configuration->v_key)::text, 300)));
        end if;
    end loop;
    if p_configuration ? 'max_retries'
       and (jsonb_typeof(p_configuration->'max_retries') <> 'number' or p_configuration->>'max_retries' !~ '^[1-9][0-9]{0,3}$') then
        perform postrider.template_refuse(format('max_retries of %s is %s; it must be a whole number from 1 to 9999', p_whose, left((p_configuration->'max_retries')::text, 100)));
    end if;
end $$;
comment on function postrider.template_check_events(jsonb, text) is
'Internal. Refuses a template whose events could not be written, with error 22023.';
revoke all on function postrider.template_check_events(jsonb, text) from public;
