create or replace function postrider.task_cycle(p_steps jsonb) returns text[]
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
comment on function postrider.task_cycle(jsonb) is 'Internal. The names of the steps (as create_task takes them) that depend on themselves through other steps, and of the steps between them; empty if there are none.';
revoke all on function postrider.task_cycle(jsonb) from public;
