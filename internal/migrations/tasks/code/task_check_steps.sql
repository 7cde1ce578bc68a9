-- By the rules and in the words of package internal/tasks/task.
create or replace function postrider.task_check_steps(p_steps jsonb) returns void
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
'Internal. Raises 22023 with the path of an error in steps, as create_task and templates have them, and what the error is. A cycle is no error here: see task_cycle.';
revoke all on function postrider.task_check_steps(jsonb) from public;
