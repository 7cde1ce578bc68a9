create or replace function postrider.access_by_hand() returns boolean
language sql stable set search_path = pg_catalog, pg_temp as $$
    -- The owner and serve may write the tables as they like anyway. They alone shorten the audit log. The role is the one that
    -- was taken on, and not that of a function.
    select not has_function_privilege(session_user, 'postrider.access_purge_audit(interval, integer)', 'execute')
       and not has_function_privilege(coalesce(nullif(current_setting('role'), 'none'), session_user), 'postrider.access_purge_audit(interval, integer)', 'execute')
$$;
comment on function postrider.access_by_hand() is 'Internal. Whether a command or a person''s SQL makes this change, and neither serve nor the owner of the schema.';
revoke all on function postrider.access_by_hand() from public;
