create or replace function postrider.task_schema_error(p_schema jsonb, p_value jsonb, p_path text) returns text
language plpgsql immutable set search_path = pg_catalog, pg_temp as $$
declare
    v_type text := jsonb_typeof(p_value);
    v_short text := left(p_value::text, 100);
    v_bad  text;
    v_n    numeric;
    v_want jsonb;
    v_hits integer;
    r      record;
begin
    if p_schema is null or p_schema = 'true' or jsonb_typeof(p_schema) = 'null' then
        return null;
    elsif p_schema = 'false' then
        return p_path || ' must not be there';
    elsif jsonb_typeof(p_schema) <> 'object' then
        return format('%s: its schema is a JSON %s, it must be an object', p_path, jsonb_typeof(p_schema));
    end if;

    v_want := p_schema->'type';
    if v_want is not null then
        v_want := case jsonb_typeof(v_want) when 'string' then jsonb_build_array(v_want) else v_want end;
        if not (v_want ? v_type or v_type = 'number' and v_want ? 'integer' and (p_value #>> '{}')::numeric % 1 = 0) then
            return format('%s is %s, it must be of type %s', p_path, v_short,
                          (select string_agg(w, ' or ') from jsonb_array_elements_text(v_want) w));
        end if;
    end if;
    if p_schema ? 'enum' and not exists (select from jsonb_array_elements(p_schema->'enum') e where e = p_value) then
        return format('%s is %s, it must be one of %s', p_path, v_short, left((p_schema->'enum')::text, 300));
    end if;
    if p_schema ? 'const' and p_schema->'const' <> p_value then
        return format('%s is %s, it must be %s', p_path, v_short, left((p_schema->'const')::text, 300));
    end if;

    case v_type
    when 'number' then
        v_n := (p_value #>> '{}')::numeric;
        if v_n < (p_schema->>'minimum')::numeric then
            return format('%s is %s, it must be at least %s', p_path, v_short, p_schema->>'minimum');
        elsif v_n > (p_schema->>'maximum')::numeric then
            return format('%s is %s, it must be at most %s', p_path, v_short, p_schema->>'maximum');
        elsif v_n <= (p_schema->>'exclusiveMinimum')::numeric then
            return format('%s is %s, it must be more than %s', p_path, v_short, p_schema->>'exclusiveMinimum');
        elsif v_n >= (p_schema->>'exclusiveMaximum')::numeric then
            return format('%s is %s, it must be less than %s', p_path, v_short, p_schema->>'exclusiveMaximum');
        end if;
    when 'string' then
        if length(p_value #>> '{}') < (p_schema->>'minLength')::numeric then
            return format('%s is %s, it must have at least %s characters', p_path, v_short, p_schema->>'minLength');
        elsif length(p_value #>> '{}') > (p_schema->>'maxLength')::numeric then
            return format('%s has %s characters, it must have at most %s', p_path, length(p_value #>> '{}'), p_schema->>'maxLength');
        elsif (p_value #>> '{}') !~ (p_schema->>'pattern') then
            return format('%s is %s, it must match the pattern %s', p_path, v_short, p_schema->>'pattern');
        end if;
    when 'array' then
        if jsonb_array_length(p_value) < (p_schema->>'minItems')::numeric then
            return format('%s has %s items, it must have at least %s', p_path, jsonb_array_length(p_value), p_schema->>'minItems');
        elsif jsonb_array_length(p_value) > (p_schema->>'maxItems')::numeric then
            return format('%s has %s items, it must have at most %s', p_path, jsonb_array_length(p_value), p_schema->>'maxItems');
        end if;
        if p_schema ? 'items' then
            for r in select i.item, i.n from jsonb_array_elements(p_value) with ordinality i(item, n) loop
                v_bad := postrider.task_schema_error(p_schema->'items', r.item, format('%s[%s]', p_path, r.n - 1));
                if v_bad is not null then
                    return v_bad;
                end if;
            end loop;
        end if;
    when 'object' then
        select q into v_bad from jsonb_array_elements_text(coalesce(p_schema->'required', '[]')) q where not p_value ? q limit 1;
        if found then
            return format('%s is missing', postrider.task_schema_path(p_path, v_bad));
        end if;
        for r in select e.key, e.value, p_schema->'properties'->e.key as schema, p_schema->'properties' ? e.key as named
                   from jsonb_each(p_value) e order by e.key loop
            if r.named is true then
                v_bad := postrider.task_schema_error(r.schema, r.value, postrider.task_schema_path(p_path, r.key));
            elsif p_schema->'additionalProperties' = 'false' then
                v_bad := format('%s is not known; known are %s', postrider.task_schema_path(p_path, r.key),
                                coalesce((select left(string_agg(k, ', ' order by k), 300) from jsonb_object_keys(p_schema->'properties') k), 'none'));
            else
                v_bad := postrider.task_schema_error(p_schema->'additionalProperties', r.value, postrider.task_schema_path(p_path, r.key));
            end if;
            if v_bad is not null then
                return v_bad;
            end if;
        end loop;
    else
        null; -- true, false and null have nothing more to look at
    end case;

    if p_schema ? 'allOf' then
        for r in select s.schema from jsonb_array_elements(p_schema->'allOf') s(schema) loop
            v_bad := postrider.task_schema_error(r.schema, p_value, p_path);
            if v_bad is not null then
                return v_bad;
            end if;
        end loop;
    end if;
    if p_schema ? 'anyOf' then
        select string_agg(e.bad, '; or ') into v_bad
          from (select postrider.task_schema_error(s, p_value, p_path) as bad from jsonb_array_elements(p_schema->'anyOf') s) e
        having bool_and(e.bad is not null);
        if v_bad is not null then
            return format('%s fits none of what is possible: %s', p_path, v_bad);
        end if;
    end if;
    if p_schema ? 'oneOf' then
        select count(*) filter (where e.bad is null), string_agg(e.bad, '; or ') into v_hits, v_bad
          from (select postrider.task_schema_error(s, p_value, p_path) as bad from jsonb_array_elements(p_schema->'oneOf') s) e;
        if v_hits = 0 then
            return format('%s fits none of what is possible: %s', p_path, v_bad);
        elsif v_hits > 1 then
            return format('%s is %s, which fits %s of the schemas in oneOf, it must fit one', p_path, v_short, v_hits);
        end if;
    end if;
    if p_schema ? 'not' and postrider.task_schema_error(p_schema->'not', p_value, p_path) is null then
        return format('%s is %s, it must not fit %s', p_path, v_short, left((p_schema->'not')::text, 300));
    end if;
    return null;
end $$;
comment on function postrider.task_schema_error(jsonb, jsonb, text) is
'Internal. The first way in which a value does not fit a JSON Schema, with the path to it; null if it fits. Knows type, properties, required, additionalProperties, items, enum, const, minimum, maximum, exclusiveMinimum, exclusiveMaximum, minLength, maxLength, pattern (a regular expression of PostgreSQL), minItems, maxItems, allOf, anyOf, oneOf, not; passes over every other key.';
revoke all on function postrider.task_schema_error(jsonb, jsonb, text) from public;
