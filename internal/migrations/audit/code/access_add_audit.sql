create or replace function postrider.access_add_audit(p_actor text, p_action text, p_type text, p_id text, p_details jsonb) returns void
language sql volatile set search_path = pg_catalog, pg_temp as $$
    insert into postrider.access_audit (actor, action, target_type, target_id, details) values (p_actor, p_action, p_type, p_id, p_details)
$$;
comment on function postrider.access_add_audit(text, text, text, text, jsonb) is
'Internal. Writes a row of the audit log: how functions of other rooms do, whose callers may not.';
revoke all on function postrider.access_add_audit(text, text, text, text, jsonb) from public;
