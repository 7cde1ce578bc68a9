create or replace function postrider.template_check_steps(p_steps jsonb, p_whose text) returns void
language plpgsql immutable set search_path = pg_catalog, pg_temp as $$
declare
    v_cycle text[];
begin
    perform postrider.task_check_steps(p_steps);
    v_cycle := postrider.task_cycle(p_steps);
    if cardinality(v_cycle) > 0 then
        perform postrider.template_refuse(format('steps of %s wait for each other: %s', p_whose, array_to_string(v_cycle[1:20], ', ')));
    end if;
end $$;
comment on function postrider.template_check_steps(jsonb, text) is
'Internal. Refuses steps from which no task could be made, and cycles, with error 22023.';
revoke all on function postrider.template_check_steps(jsonb, text) from public;
