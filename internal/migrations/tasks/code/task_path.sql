create or replace function postrider.task_path(p_state_machine_id integer, p_from text, p_to text) returns text[]
language plpgsql stable set search_path = pg_catalog, pg_temp set enable_seqscan = off set jit = off as $$
declare
    v_met    text[] := array[p_from];
    v_before integer[] := '{0}'; -- from which of them each was met
    v_at     integer := 1;
    v_state  text;
    v_path   text[] := '{}';
begin
    if exists (select from postrider.tasker_machine_transitions a
               where a.state_machine_id = p_state_machine_id and a.from_state = p_from and a.to_state = p_to) then
        return array[p_to];
    end if;
    if exists (select from postrider.tasker_machine_transitions a
                 join postrider.tasker_machine_transitions b on b.state_machine_id = p_state_machine_id and b.from_state = 'evaluating_results' and b.to_state = p_to
                where a.state_machine_id = p_state_machine_id and a.from_state = p_from and a.to_state = 'evaluating_results') then
        return array['evaluating_results', p_to];
    end if;
    -- The nearer states first, each met once; of ways that are equally long, the first by the names of their states.
    while v_at <= cardinality(v_met) loop
        for v_state in
            select a.to_state
              from postrider.tasker_machine_transitions a
              join postrider.tasker_machine_states s on s.state_machine_id = a.state_machine_id and s.state = a.to_state
             where a.state_machine_id = p_state_machine_id and a.from_state = v_met[v_at]
               and (s.kind = 'active' or a.to_state = p_to) and a.to_state <> all (v_met)
             order by a.to_state
        loop
            v_met := v_met || v_state;
            v_before := v_before || v_at;
            if v_state = p_to then
                v_at := cardinality(v_met);
                while v_at > 1 loop
                    v_path := v_met[v_at] || v_path;
                    v_at := v_before[v_at];
                end loop;
                return v_path;
            end if;
        end loop;
        v_at := v_at + 1;
    end loop;
    return null;
end $$;
comment on function postrider.task_path(integer, text, text) is
'Internal. The states to pass through from one state to another, the last included: directly where the machine allows it, else by evaluating_results, else by the shortest way through active states. Null if there is none.';
revoke all on function postrider.task_path(integer, text, text) from public;
