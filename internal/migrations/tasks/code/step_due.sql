create or replace function postrider.step_due(p_step postrider.tasker_workflow_steps, p_what text) returns void
language plpgsql stable set search_path = pg_catalog, pg_temp set enable_seqscan = off set jit = off as $$
declare
    v_waits text[];
begin
    if p_step.status = 'waiting_for_retry' and p_step.next_retry_at > clock_timestamp() then
        raise exception using errcode = '55000',
            message = format('postrider: cannot %s step %s (%s): its retry is not before %s', p_what, p_step.step_name, p_step.workflow_step_uuid, p_step.next_retry_at),
            hint = 'To have it tried now: postrider task step retry.';
    elsif p_step.status = 'pending' then
        v_waits := postrider.step_waits_for(p_step);
        if cardinality(v_waits) > 0 then
            raise exception using errcode = '55000',
                message = format('postrider: cannot %s step %s (%s): it waits for %s', p_what, p_step.step_name, p_step.workflow_step_uuid, array_to_string(v_waits, ', ')),
                hint = 'These must be done first; get_ready_steps has the steps whose turn it is.';
        end if;
    end if;
end $$;
comment on function postrider.step_due(postrider.tasker_workflow_steps, text) is 'Internal. Raises 55000 when it is not yet a step''s turn: it waits for other steps, or for the time of its retry.';
revoke all on function postrider.step_due(postrider.tasker_workflow_steps, text) from public;
