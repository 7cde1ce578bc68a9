create or replace function postrider.outbox_purge_keys(p_keep interval, p_rows integer, p_dry_run boolean default false,
    out removed bigint, out more boolean, out busy boolean)
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp set jit = off set lock_timeout = '1s' as $$
declare
    v_from   bigint;
    v_blocks bigint := pg_relation_size('postrider.outbox_idempotency_key') / current_setting('block_size')::bigint;
    v_step   bigint := greatest(p_rows / 75, 1);
begin
    removed := 0;
    more := false;
    select r.position into v_from from postrider.outbox_retention r where r.kind = 'idempotency_key' for update skip locked;
    busy := not found;
    if busy then
        return;
    end if;
    if p_dry_run then
        select count(*) into removed from postrider.outbox_idempotency_key k where k.created_at <= now() - p_keep;
        return;
    end if;
    if v_from >= v_blocks then
        v_from := 0;
    end if;
    -- By blocks, because an index by age would cost every writer.
    delete from postrider.outbox_idempotency_key k
    where k.ctid >= format('(%s,0)', v_from)::tid and k.ctid < format('(%s,0)', v_from + v_step)::tid and k.created_at <= now() - p_keep;
    get diagnostics removed = row_count;
    more := v_from + v_step < v_blocks;
    update postrider.outbox_retention r set position = v_from + v_step where r.kind = 'idempotency_key';
end $$;
comment on function postrider.outbox_purge_keys(interval, integer, boolean) is
'Removes idempotency keys that were first used at least as long ago as is given, from the next blocks of their table, about p_rows rows; more says that the table has not been walked to its end. busy: another session is at it.';
revoke all on function postrider.outbox_purge_keys(interval, integer, boolean) from public;
