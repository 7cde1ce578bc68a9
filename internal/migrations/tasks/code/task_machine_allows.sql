create or replace function postrider.task_machine_allows(p_state_machine_id integer, p_from_state text) returns text
language sql stable set search_path = pg_catalog, pg_temp as $$
    select case
        when not exists (select from postrider.tasker_machine_states s where s.state_machine_id = m.state_machine_id and s.state = p_from_state)
            then format('machine %s has no state %s; it has %s', m.name, coalesce(p_from_state, 'null'),
                        (select string_agg(s.state, ', ' order by s.state) from postrider.tasker_machine_states s
                          where s.state_machine_id = m.state_machine_id))
        else coalesce((select format('machine %s allows from %s: %s', m.name, p_from_state, string_agg(a.to_state, ', ' order by a.to_state))
                         from postrider.tasker_machine_transitions a
                        where a.state_machine_id = m.state_machine_id and a.from_state = p_from_state having count(*) > 0),
                      format('machine %s allows nothing from %s, which is an end', m.name, p_from_state))
        end
    from postrider.tasker_state_machines m where m.state_machine_id = p_state_machine_id
$$;
comment on function postrider.task_machine_allows(integer, text) is 'Internal. What a machine allows from a state, in words for an error.';
revoke all on function postrider.task_machine_allows(integer, text) from public;
