create or replace function postrider.dlq_command_operation(p_operation uuid, p_state text, p_forgive boolean) returns void
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp as $$
begin
    perform postrider.access_owe(
        (case p_state when 'paused' then '{operation.pause}' when 'aborted' then '{operation.abort}' else '{operation.start, operation.resume}' end)::text[],
        'operation', array[p_operation::text]);
    update postrider.dlq_operation o
    set state = p_state, updated_at = now(), next_at = null,
        started_at = case when p_state in ('running', 'canary') then coalesce(o.started_at, now()) else o.started_at end,
        finished_at = case when p_state = 'aborted' then coalesce(o.finished_at, now()) else o.finished_at end,
        options = case when p_forgive then o.options || jsonb_build_object('forgiven', o.came_back, 'forgiven_delivered', o.delivered)
                       else o.options end,
        error = case when p_state in ('running', 'canary') then null else o.error end
    where o.dlq_operation_uuid = p_operation
      and (p_state in ('running', 'canary') and o.state in ('planned', 'paused', 'halted')
           or p_state = 'paused' and o.state in ('running', 'canary')
           or p_state = 'aborted' and o.state not in ('completed', 'aborted'));
    if not found then
        raise exception using errcode = '55000',
            message = format('postrider: operation %s cannot become %s', coalesce(p_operation::text, 'null'), coalesce(p_state, 'null')),
            hint = 'postrider op show says how it stands.';
    end if;
end $$;
comment on function postrider.dlq_command_operation(uuid, text, boolean) is
'Gives an operation the wanted state: running or canary (if it is planned, paused or halted), paused (if it is running or canary), aborted (if it has not ended). With p_forgive, the dead letters that made it halt are not counted again.';
revoke all on function postrider.dlq_command_operation(uuid, text, boolean) from public;
