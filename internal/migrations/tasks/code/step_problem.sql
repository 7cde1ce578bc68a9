create or replace function postrider.step_problem(p_step jsonb, p_place integer, p_names jsonb) returns text
language plpgsql immutable set search_path = pg_catalog, pg_temp as $$
declare
    v_path  text := format('steps[%s]', p_place);
    v_known constant text[] := '{dependencies,depends_on_step,description,handler,inputs,max_retries,metadata,name,retry_base_seconds,retry_max_seconds}';
    v_step  jsonb;
    v_key   text;
    v_value jsonb;
    v_at    integer;
begin
    if jsonb_typeof(p_step) <> 'object' then
        return format('%s: must be a mapping, lines of the form name: value, not %s', v_path, postrider.json_words(p_step));
    end if;
    for v_key in select k from jsonb_object_keys(p_step) k where k <> all (v_known) order by k loop
        return format('%s.%s: unknown key; there are %s', v_path, left(v_key, 160), array_to_string(v_known, ', '));
    end loop;
    -- A key without a value is an unset one.
    select coalesce(jsonb_object_agg(e.key, e.value), '{}') into v_step from jsonb_each(p_step) e where jsonb_typeof(e.value) <> 'null';

    if not v_step ? 'name' then
        return format('%s.name: is missing; add it', v_path);
    end if;
    foreach v_key in array array['name', 'description'] loop
        v_value := v_step->v_key;
        if jsonb_typeof(v_value) <> 'string' then
            return format('%s.%s: must be a text, not %s', v_path, v_key, postrider.json_words(v_value))
                   || case when jsonb_typeof(v_value) in ('number', 'boolean') then '; put it in quotes' else '' end;
        end if;
    end loop;
    if octet_length(v_step->>'name') not between 1 and 256 then
        return format('%s.name: must be a text of 1 to 256 bytes, it has %s', v_path, octet_length(v_step->>'name'));
    elsif (p_names->>(v_step->>'name'))::integer < p_place then
        return format('%s.name: a step %s is there already, in steps[%s]; give each its own name', v_path, left(v_step->>'name', 160), p_names->>(v_step->>'name'));
    end if;

    v_value := v_step->'handler';
    if jsonb_typeof(v_value) not in ('string', 'object') then
        return format('%s.handler: must be a text or a mapping, not %s', v_path, postrider.json_words(v_value));
    elsif jsonb_typeof(v_value) = 'string' and octet_length(v_value #>> '{}') not between 1 and 256 then
        return format('%s.handler: must be a text of 1 to 256 bytes or a mapping, it has %s', v_path, octet_length(v_value #>> '{}'));
    elsif jsonb_typeof(v_step->'metadata') <> 'object' then
        return format('%s.metadata: must be a mapping, not %s', v_path, postrider.json_words(v_step->'metadata'));
    elsif v_step ? 'dependencies' and v_step ? 'depends_on_step' then
        return format('%s.depends_on_step: says the same as dependencies; put all names there', v_path);
    end if;
    for v_key, v_value in select e.key, e.value from jsonb_each(v_step) e where e.key in ('dependencies', 'depends_on_step') loop
        if v_key = 'depends_on_step' and jsonb_typeof(v_value) = 'string' then
            v_value := jsonb_build_array(v_value); -- the older form, one name
        elsif jsonb_typeof(v_value) <> 'array' then
            return format('%s.%s: must be a list, not %s', v_path, v_key, postrider.json_words(v_value));
        end if;
        v_at := -1;
        for v_value in select d.name from jsonb_array_elements(v_value) d(name) loop
            v_at := v_at + 1;
            if jsonb_typeof(v_value) <> 'string' then
                return format('%s.%s[%s]: must be a text, not %s', v_path, v_key, v_at, postrider.json_words(v_value))
                       || case when jsonb_typeof(v_value) in ('number', 'boolean') then '; put it in quotes' else '' end;
            elsif not p_names ? (v_value #>> '{}') then
                return format('%s.%s[%s]: unknown step %s; there are %s', v_path, v_key, v_at, left(v_value #>> '{}', 160),
                              left((select string_agg(n.key, ', ' order by n.value::integer) from jsonb_each(p_names) n), 160));
            end if;
        end loop;
        select d.name #>> '{}' into v_key from jsonb_array_elements(postrider.step_dependencies(v_step)) d(name) group by d.name having count(*) > 1 limit 1;
        if found then
            return format('%s.dependencies: %s is listed twice; keep one', v_path, v_key);
        end if;
    end loop;

    v_value := v_step->'max_retries';
    if v_value is not null and (jsonb_typeof(v_value) <> 'number' or v_value::text !~ '^[0-9]{1,4}$' or v_value::text::integer > 1000) then
        return format('%s.max_retries: must be a whole number from 0 to 1000, not %s', v_path, postrider.json_words(v_value));
    end if;
    foreach v_key in array array['retry_base_seconds', 'retry_max_seconds'] loop
        v_value := v_step->v_key;
        if v_value is not null and (jsonb_typeof(v_value) <> 'number' or (v_value #>> '{}')::numeric not between 0.001 and 31536000) then
            return format('%s.%s: must be a number of seconds from 0.001 to 31536000, not %s', v_path, v_key, postrider.json_words(v_value));
        end if;
    end loop;
    if (v_step->>'retry_max_seconds')::numeric < (v_step->>'retry_base_seconds')::numeric then
        return format('%s.retry_max_seconds: is %s, less than retry_base_seconds, which is %s', v_path, v_step->>'retry_max_seconds', v_step->>'retry_base_seconds');
    end if;
    return null;
end $$;
comment on function postrider.step_problem(jsonb, integer, jsonb) is
'Internal. The first thing that is wrong with a step as templates write it, with its path; null if nothing is. p_names has the names of all steps and the place where each is first.';
revoke all on function postrider.step_problem(jsonb, integer, jsonb) from public;
