create or replace function postrider.access_find_commands(p_desk text, p_call bigint)
returns table (action text, outbox_id bigint, actor text, at timestamptz, details jsonb)
language sql stable security definer set search_path = pg_catalog, pg_temp as $$
    select a.action, a.target_id::bigint, a.actor, a.at, a.details from postrider.access_audit a
    where a.action in ('dlq.requeue', 'dlq.resolve', 'outbox.release') and a.target_type = 'event'
      and a.details->>'desk' = p_desk and (a.details->>'call')::bigint > p_call
    order by a.at, a.access_audit_id
$$;
comment on function postrider.access_find_commands(text, bigint) is
'What a desk had done here by calls of outbox_obey with a higher number than the second argument, by the audit log, in order.';
revoke all on function postrider.access_find_commands(text, bigint) from public;
