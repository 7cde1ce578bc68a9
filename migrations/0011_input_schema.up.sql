-- What a task is made of is checked: its steps, by the rules and in the words of package relay/task, and its context,
-- by the part of JSON Schema that templates may use.

create function postrider.task_cycle(p_steps jsonb) returns text[]
language plpgsql immutable
-- Hash joins: a loop over the pairs of steps would be quick to begin, and slow to end where there is no cycle.
set search_path = pg_catalog, pg_temp set enable_nestloop = off set enable_mergejoin = off set jit = off as $$
declare
    v_names      text[];    -- the steps, in the order of their names; below, a step is its place here
    v_needs      integer[]; -- step -> how many steps that are left it depends on
    v_uses       integer[]; -- step -> how many steps that are left depend on it
    v_needed     integer[]; -- what steps depend on, step after step …
    v_users      integer[]; -- … and which depend on them
    v_needed_end integer[] := '{0}'; -- step + 1 -> where its part of v_needed ends
    v_users_end  integer[] := '{0}';
    v_gone       boolean[];
    v_queue      integer[] := '{}';
    v_at         integer := 1;
    v_other      integer;
begin
    -- Where every step comes after what it depends on, as nearly everybody writes them, there is no cycle.
    if not exists (
        with step as materialized (
            select s.step->>'name' as name, s.step, s.n from jsonb_array_elements(p_steps) with ordinality s(step, n)
        ), edge as materialized (
            select s.n, d.name from step s cross join jsonb_array_elements_text(postrider.step_dependencies(s.step)) d(name)
        )
        select from edge e join step o on o.name = e.name where o.n >= e.n) then
        return '{}';
    end if;
    select array_agg(s.name order by s.name collate "C") into v_names
      from (select distinct s.step->>'name' as name from jsonb_array_elements(p_steps) s(step)) s;
    with step as materialized (
        select u.name, u.n::integer as n from unnest(v_names) with ordinality u(name, n)
    ), edge as materialized (
        select distinct a.n as step, b.n as needs
          from jsonb_array_elements(p_steps) s(step)
         cross join lateral jsonb_array_elements_text(postrider.step_dependencies(s.step)) d(name)
          join step a on a.name = s.step->>'name'
          join step b on b.name = d.name
    )
    select (select array_agg(coalesce(c.many, 0) order by s.n)
              from step s left join (select e.step, count(*)::integer as many from edge e group by e.step) c on c.step = s.n),
           (select array_agg(coalesce(c.many, 0) order by s.n)
              from step s left join (select e.needs, count(*)::integer as many from edge e group by e.needs) c on c.needs = s.n),
           (select array_agg(e.needs order by e.step) from edge e), (select array_agg(e.step order by e.needs) from edge e)
      into v_needs, v_uses, v_needed, v_users;
    v_gone := array_fill(false, array[cardinality(v_names)]);
    for v_step in 1 .. cardinality(v_names) loop
        v_needed_end := array_append(v_needed_end, v_needed_end[v_step] + v_needs[v_step]);
        v_users_end := array_append(v_users_end, v_users_end[v_step] + v_uses[v_step]);
        if v_needs[v_step] = 0 then
            v_queue := array_append(v_queue, v_step);
        end if;
    end loop;
    -- What depends on nothing that is left is on no cycle …
    while v_at <= cardinality(v_queue) loop
        v_gone[v_queue[v_at]] := true;
        for v_edge in v_users_end[v_queue[v_at]] + 1 .. v_users_end[v_queue[v_at] + 1] loop
            v_other := v_users[v_edge];
            v_needs[v_other] := v_needs[v_other] - 1;
            if v_needs[v_other] = 0 then
                v_queue := array_append(v_queue, v_other);
            end if;
        end loop;
        v_at := v_at + 1;
    end loop;
    -- … nor what nothing that is left depends on. What went above needs nothing that is left, so v_uses is still true.
    for v_step in 1 .. cardinality(v_names) loop
        if v_uses[v_step] = 0 and not v_gone[v_step] then
            v_queue := array_append(v_queue, v_step);
        end if;
    end loop;
    while v_at <= cardinality(v_queue) loop
        v_gone[v_queue[v_at]] := true;
        for v_edge in v_needed_end[v_queue[v_at]] + 1 .. v_needed_end[v_queue[v_at] + 1] loop
            v_other := v_needed[v_edge];
            v_uses[v_other] := v_uses[v_other] - 1;
            if v_uses[v_other] = 0 and not v_gone[v_other] then
                v_queue := array_append(v_queue, v_other);
            end if;
        end loop;
        v_at := v_at + 1;
    end loop;
    return array(select u.name from unnest(v_names, v_gone) with ordinality u(name, gone, n) where not u.gone order by u.n);
end $$;
comment on function postrider.task_cycle(jsonb) is 'Internal. The names of the steps (as create_task takes them) that depend on themselves over others, and of those between; empty if there are none.';

create function postrider.step_dependencies(p_step jsonb) returns jsonb
language sql immutable set search_path = pg_catalog, pg_temp as $$
    select case jsonb_typeof(p_step->'dependencies') when 'array' then p_step->'dependencies' when 'string' then jsonb_build_array(p_step->'dependencies') else '[]' end
        || case jsonb_typeof(p_step->'depends_on_step') when 'array' then p_step->'depends_on_step' when 'string' then jsonb_build_array(p_step->'depends_on_step') else '[]' end
$$;
comment on function postrider.step_dependencies(jsonb) is 'Internal. The names in dependencies and depends_on_step of a step as templates write it; each may be one name or a list.';

create function postrider.json_words(p_value jsonb) returns text
language sql immutable set search_path = pg_catalog, pg_temp as $$
    select case jsonb_typeof(p_value)
           when 'boolean' then p_value::text
           when 'number' then 'the number ' || left(p_value::text, 160)
           when 'string' then 'the text ' || to_json(left(p_value #>> '{}', 160))::text
           when 'array' then 'a list'
           when 'object' then 'a mapping'
           else 'nothing' end
$$;
comment on function postrider.json_words(jsonb) is 'Internal. What a value is, for a message: the number 5, the text "a", a list.';

create function postrider.step_problem(p_step jsonb, p_place integer, p_names jsonb) returns text
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

create function postrider.task_check_steps(p_steps jsonb) returns void
language plpgsql immutable set search_path = pg_catalog, pg_temp as $$
declare
    v_names jsonb;
    v_bad   text;
begin
    if jsonb_typeof(p_steps) <> 'array' then
        raise exception using errcode = '22023', message = format('postrider: steps: must be a list, not %s', postrider.json_words(p_steps));
    elsif jsonb_array_length(p_steps) > 5000 then
        -- The event about a new task names its steps, and should fit a record of Kafka.
        raise exception using errcode = '22023', message = format('postrider: steps: has %s steps; a task has at most 5000', jsonb_array_length(p_steps)),
            hint = 'Make several tasks of it.';
    end if;
    select coalesce(jsonb_object_agg(s.name, s.place), '{}') into v_names
      from (select s.step->>'name' as name, min(s.n) - 1 as place from jsonb_array_elements(p_steps) with ordinality s(step, n)
             where jsonb_typeof(s.step->'name') = 'string' group by 1) s;
    select b.problem into v_bad
      from jsonb_array_elements(p_steps) with ordinality s(step, n)
     cross join lateral (select postrider.step_problem(s.step, (s.n - 1)::integer, v_names) as problem offset 0) b
     where b.problem is not null limit 1;
    if found then
        raise exception using errcode = '22023', message = 'postrider: ' || v_bad;
    end if;
end $$;
comment on function postrider.task_check_steps(jsonb) is
'Internal. Raises 22023 with the path and what is wrong with steps as create_task and templates have them. A cycle is not: see task_cycle.';

create function postrider.task_schema_error(p_schema jsonb, p_value jsonb, p_path text) returns text
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

create function postrider.task_schema_path(p_path text, p_key text) returns text
language sql immutable parallel safe set search_path = pg_catalog, pg_temp as $$
    select case when p_key ~ '^[A-Za-z_][A-Za-z0-9_]*$' then p_path || '.' || p_key else format('%s[%s]', p_path, to_jsonb(left(p_key, 100))) end
$$;
comment on function postrider.task_schema_path(text, text) is 'Internal. The path of a property: $.order.id, $.order["the id"].';

create function postrider.task_check_input(p_schema jsonb, p_value jsonb) returns void
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

revoke all on function postrider.task_cycle(jsonb) from public;
revoke all on function postrider.step_dependencies(jsonb) from public;
revoke all on function postrider.json_words(jsonb) from public;
revoke all on function postrider.step_problem(jsonb, integer, jsonb) from public;
revoke all on function postrider.task_check_steps(jsonb) from public;
revoke all on function postrider.task_schema_error(jsonb, jsonb, text) from public;
revoke all on function postrider.task_schema_path(text, text) from public;
revoke all on function postrider.task_check_input(jsonb, jsonb) from public;
