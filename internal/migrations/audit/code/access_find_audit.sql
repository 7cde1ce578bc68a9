create or replace function postrider.access_find_audit(p_action text, p_type text, p_id text, p_details jsonb) returns jsonb
language sql stable set search_path = pg_catalog, pg_temp as $$
    select a.details from postrider.access_audit a
    where a.target_type = p_type and a.target_id = p_id and a.action = p_action and a.details @> p_details
    order by a.at, a.access_audit_id limit 1
$$;
comment on function postrider.access_find_audit(text, text, text, jsonb) is
'Internal. The details of the first row of the audit log about an action on a thing whose details contain p_details; null where there is none.';
revoke all on function postrider.access_find_audit(text, text, text, jsonb) from public;
