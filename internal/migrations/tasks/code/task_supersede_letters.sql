create or replace function postrider.task_supersede_letters(p_task_uuid uuid, p_actor text) returns void
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp set enable_seqscan = off set jit = off as $$
declare
    v_began   timestamptz := clock_timestamp();
    v_entries uuid[];
begin
    if to_regprocedure('postrider.dlq_close_superseded(uuid[], text[])') is null then
        return; -- nothing is investigated in this database
    end if;
    -- Investigations before letters: every other session locks them in this order.
    select array_agg(distinct l.entry_uuid) into v_entries
      from postrider.tasker_letter l where l.task_uuid = p_task_uuid and l.closed_at is null and l.entry_uuid is not null;
    if v_entries is not null then
        perform postrider.dlq_close_superseded(v_entries, array_fill(p_actor, array[cardinality(v_entries)]));
    end if;
    -- A letter that the collector records meanwhile is marked after that, one that it records later is marked before.
    with marked as (
        update postrider.tasker_letter l set superseded_at = clock_timestamp(), superseded_by = p_actor
         where l.task_uuid = p_task_uuid and coalesce(l.closed_at, 'infinity') >= v_began and l.superseded_at is null
        returning l.entry_uuid, l.closed_at
    )
    select array_agg(distinct m.entry_uuid) into v_entries
      from marked m where m.closed_at is null and m.entry_uuid <> all (coalesce(v_entries, '{}'));
    if v_entries is not null then
        perform postrider.dlq_close_superseded(v_entries, array_fill(p_actor, array[cardinality(v_entries)]));
    end if;
end $$;
comment on function postrider.task_supersede_letters(uuid, text) is
'Internal. A task is retried, by p_actor: the investigations of its dead letters, and of the events whose loss moved it, have nothing left to be done. The desk closes the pending ones now, and the others when their letters are recorded.';
revoke all on function postrider.task_supersede_letters(uuid, text) from public;
