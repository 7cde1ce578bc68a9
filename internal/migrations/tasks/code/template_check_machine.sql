create or replace function postrider.template_check_machine(p_machine jsonb, p_whose text) returns void
language plpgsql immutable set search_path = pg_catalog, pg_temp as $$
declare
    v_names text[];
    v_bad   text;
begin
    if jsonb_typeof(p_machine) <> 'object' or jsonb_typeof(p_machine->'states') is distinct from 'array'
       or jsonb_typeof(coalesce(p_machine->'transitions', '[]')) <> 'array' or jsonb_typeof(coalesce(p_machine->'roles', '{}')) <> 'object'
       or jsonb_typeof(coalesce(p_machine->'retryable', '[]')) <> 'array' then
        perform postrider.template_refuse(format('the machine of %s needs arrays of states, transitions and retryable states, and an object of roles', p_whose));
    end if;
    select s.value::text into v_bad from jsonb_array_elements(p_machine->'states') s(value)
    where jsonb_typeof(s.value->'name') is distinct from 'string' or s.value->>'name' !~ '^[A-Za-z0-9_.-]{1,128}$'
       or coalesce(s.value->>'kind', '') not in ('initial', 'active', 'waiting', 'failed', 'terminal') limit 1;
    if found then
        perform postrider.template_refuse(format('a state of %s needs a name and a kind, which is initial, active, waiting, failed or terminal: %s', p_whose, left(v_bad, 200)));
    end if;
    select s.value::text into v_bad from jsonb_array_elements(coalesce(p_machine->'transitions', '[]')) s(value)
    where jsonb_typeof(s.value->'from') is distinct from 'string' or jsonb_typeof(s.value->'to') is distinct from 'array' limit 1;
    if found then
        perform postrider.template_refuse(format('a transition of %s needs a state from and an array to: %s', p_whose, left(v_bad, 200)));
    end if;
    select array_agg(s.value->>'name') into v_names from jsonb_array_elements(p_machine->'states') s(value);
    select n.name into v_bad from unnest(v_names) n(name) group by n.name having count(*) > 1 limit 1;
    if found then
        perform postrider.template_refuse(format('%s has the state %s twice', p_whose, v_bad));
    end if;
    if (select count(*) from jsonb_array_elements(p_machine->'states') s(value) where s.value->>'kind' = 'initial') <> 1 then
        perform postrider.template_refuse(format('the machine of %s needs exactly one state of the kind initial', p_whose));
    end if;
    select n.name into v_bad
    from (select t.value->>'from' from jsonb_array_elements(coalesce(p_machine->'transitions', '[]')) t(value)
          union all
          select d.name from jsonb_array_elements(coalesce(p_machine->'transitions', '[]')) t(value), jsonb_array_elements_text(t.value->'to') d(name)
          union all
          select r.value from jsonb_each_text(coalesce(p_machine->'roles', '{}')) r
          union all
          select y.name from jsonb_array_elements_text(coalesce(p_machine->'retryable', '[]')) y(name)) n(name)
    where n.name is null or n.name <> all (v_names) limit 1;
    if found then
        perform postrider.template_refuse(format('the machine of %s has no state %s', p_whose, coalesce(v_bad, 'null')));
    end if;
    select s.value->>'name' into v_bad
    from jsonb_array_elements(p_machine->'states') s(value)
    where s.value->>'kind' = 'terminal'
      and exists (select from jsonb_array_elements(coalesce(p_machine->'transitions', '[]')) t(value) where t.value->>'from' = s.value->>'name') limit 1;
    if found then
        perform postrider.template_refuse(format('the state %s of %s is terminal, nothing can follow it', v_bad, p_whose));
    end if;
end $$;
comment on function postrider.template_check_machine(jsonb, text) is
'Internal. Refuses a machine in which tasks could not begin, or that names states it does not have, with error 22023.';
revoke all on function postrider.template_check_machine(jsonb, text) from public;
