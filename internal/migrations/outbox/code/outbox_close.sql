create or replace function postrider.outbox_close(p_ids bigint[], p_event_ids uuid[], p_episodes integer[]) returns integer
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp
set enable_seqscan = off set enable_bitmapscan = off set enable_hashjoin = off set enable_mergejoin = off set jit = off as $$
declare
    closed integer;
begin
    -- Also one whose letter the relay has yet to settle: the letter may be here before that.
    with open as materialized (
        select x.id from unnest(p_ids, p_event_ids, p_episodes) as c(id, event_id, episode)
        join postrider.outbox_exception x on x.id = c.id
        where x.event_id = c.event_id and x.episode = c.episode and x.state in ('exhausted', 'dead_lettered') and x.closed_at is null
        order by x.id for update of x
    )
    update postrider.outbox_exception x set closed_at = clock_timestamp() from open o where x.id = o.id;
    get diagnostics closed = row_count;
    return closed;
end $$;
comment on function postrider.outbox_close(bigint[], uuid[], integer[]) is
'Closes events that were given up: the desk has closed their investigation, and they are no longer needed. From now on retention may remove them, once their dead-letter topic has acknowledged them. An event that was given up again since is left alone. Returns how many were closed.';
revoke all on function postrider.outbox_close(bigint[], uuid[], integer[]) from public;
