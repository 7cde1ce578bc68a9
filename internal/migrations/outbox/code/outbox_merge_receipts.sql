create or replace function postrider.outbox_merge_receipts(p_age interval default interval '10 minutes', p_rows integer default 2000,
    out removed bigint, out more boolean, out busy boolean)
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp set enable_seqscan = off set jit = off set lock_timeout = '1s' as $$
declare
    v_from bigint;
    v_last bigint;
    v_seen bigint;
begin
    removed := 0;
    more := false;
    select r.position into v_from from postrider.outbox_retention r where r.kind = 'receipt' for update skip locked;
    busy := not found;
    if busy then
        return;
    end if;
    select max(o.number), count(*) into v_last, v_seen
    from (select r.number, r.at from postrider.outbox_receipt r
          where r.number > v_from and r.number < (select max(b.number) from postrider.outbox_receipt b where b.gaps is not null)
          order by r.number limit p_rows) o
    where o.at <= clock_timestamp() - p_age;
    if v_last is null then
        return;
    end if;
    with plain as (
        select r.*, date_trunc('second', r.at) as second
        from postrider.outbox_receipt r
        where r.number > v_from and r.number <= v_last and r.note is null and r.returned is null
    ), merged as (
        select max(p.number) as number, min(p.term) as term, min(p.first_id) as first_id, max(p.at) as at,
               (select coalesce(range_agg(x), '{}') from plain q, unnest(q.events) x where q.term = p.term and q.second = p.second) as events,
               (select coalesce(range_agg(x), '{}') from plain q, unnest(q.forgotten) x where q.term = p.term and q.second = p.second) as forgotten
        from plain p group by p.term, p.second having count(*) > 1
    ), away as (
        delete from postrider.outbox_receipt r using plain p, merged m
        where r.number = p.number and p.term = m.term and p.second = date_trunc('second', m.at) and r.number <> m.number
        returning r.number
    ), kept as (
        update postrider.outbox_receipt r set first_id = m.first_id, events = m.events, forgotten = m.forgotten
        from merged m where r.number = m.number
    )
    select count(*) into removed from away;
    update postrider.outbox_retention r set position = v_last where r.kind = 'receipt';
    more := v_seen >= p_rows;
end $$;
comment on function postrider.outbox_merge_receipts(interval, integer) is
'Merges the receipts of a second into one. It reads receipts older than p_age, up to p_rows of them. The time at which an event went is then known to the second. busy: another session is at it.';
revoke all on function postrider.outbox_merge_receipts(interval, integer) from public;
