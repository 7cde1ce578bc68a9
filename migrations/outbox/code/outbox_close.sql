create or replace function postrider.outbox_close(p_ids bigint[], p_event_ids uuid[], p_episodes integer[]) returns integer
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp set enable_seqscan = off as $$
declare
    closed integer;
begin
    update postrider.outbox_exception x set closed_at = clock_timestamp()
    from unnest(p_ids, p_event_ids, p_episodes) as c(id, event_id, episode)
    where x.id = any (array[c.id]) and x.event_id = c.event_id and x.episode = c.episode and x.state = 'dead_lettered' and x.closed_at is null;
    get diagnostics closed = row_count;
    return closed;
end $$;
comment on function postrider.outbox_close(bigint[], uuid[], integer[]) is
'The desk says which dead-lettered events nobody needs any more: their investigation is closed. Retention may remove them from now on. One that was given up again since is left alone. Returns how many were closed.';
revoke all on function postrider.outbox_close(bigint[], uuid[], integer[]) from public;
