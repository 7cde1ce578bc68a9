create or replace function postrider.outbox_purge_events(p_keep interval, p_rows integer, p_dry_run boolean default false,
    out removed bigint, out more boolean, out busy boolean, out stopped text)
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp
set enable_seqscan = off set enable_hashjoin = off set enable_mergejoin = off set jit = off set lock_timeout = '1s' as $$
declare
    k         postrider.outbox_retention;
    v_cutoff  timestamptz := clock_timestamp() - p_keep;
    v_through bigint;
    v_full    boolean; -- there may be more receipts that are old enough
    v_gap     bigint;
    v_last    bigint;
    v_counted bigint;
    v_other   bigint; -- of the rows that go, those whose events were not delivered: their exceptions stay
    v_recent  bigint;
begin
    removed := 0;
    more := false;
    busy := false;
    select * into k from postrider.outbox_retention r where r.kind = 'published' for update skip locked;
    if not found then
        busy := true;
        return;
    end if;
    stopped := k.reason;
    if stopped is not null then
        return;
    end if;
    -- Receipts are in the order of time, and up to k.position they are dealt with. Of the next, the last that is old enough.
    select max(o.position) filter (where o.at <= v_cutoff), not p_dry_run and count(*) = 1000 and bool_and(o.at <= v_cutoff) into v_through, v_full
    from (select r.position, r.at from postrider.outbox_receipt r where r.position > k.position order by r.position,
        r.number limit case when not p_dry_run then 1000 end) o;
    if v_through is null then
        return;
    end if;
    select min(lower(g)) into v_gap from postrider.outbox_progress p, unnest(p.gaps) g;
    v_through := least(v_through, v_gap - 1, (select p.position from postrider.outbox_progress p));
    if v_through <= k.position then
        return;
    end if;
    -- Rows and not ids: after a restore, or a sequence that was set forward, ids are far apart.
    select max(o.id) into v_last
    from (select e.id from postrider.outbox_event e where e.id > k.position and e.id <= v_through order by e.id
        limit p_rows) o having count(*) >= p_rows;
    more := v_full or coalesce(v_last < v_through, false);
    v_through := coalesce(v_last, v_through);
    if p_dry_run then
        select (select count(*) from postrider.outbox_event e where e.id > k.position and e.id <= v_through)
             - (select count(*) from postrider.outbox_exception x where x.id > k.position and x.id <= v_through) into removed;
        return;
    end if;
    -- An event that was committed late, or was an exception before it went, went later than its neighbours. Nothing behind it
    -- is removed before it.
    select least(min(lower(late.i)), min(lower(back.i))) into v_recent
    from postrider.outbox_receipt r
    left join lateral (select i from unnest(r.events * int8multirange(int8range(k.position + 1, v_through + 1))) i
                       where r.first_id <= v_through and r.position > k.position) late on true
    left join lateral (select i from unnest(r.returned * int8multirange(int8range(k.position + 1, v_through + 1))) i) back on true
    where r.at > v_cutoff and (r.first_id <= v_through and r.position > k.position or r.returned && int8range(k.position + 1, v_through + 1));
    if v_recent is not null then
        v_through := v_recent - 1;
        more := false;
        if v_through <= k.position then
            return;
        end if;
    end if;
    -- An event that is not finished keeps its content, in its exception.
    update postrider.outbox_exception x
    set copied = true, kind = e.kind, key = e.key, payload = e.payload, headers = e.headers, task_uuid = e.task_uuid,
        idempotency_key = e.idempotency_key, created_at = e.created_at, partition = e.partition, timestamp = e.timestamp,
        max_attempts = coalesce(x.max_attempts, e.max_attempts)
    from postrider.outbox_event e
    where x.id > k.position and x.id <= v_through and e.id = x.id and not x.copied;
    delete from postrider.outbox_task_event t
    using postrider.outbox_event e
    where e.id > k.position and e.id <= v_through and e.task_uuid is not null and t.task_uuid = e.task_uuid and t.id = e.id
      and not exists (select from postrider.outbox_exception x where x.id = e.id);
    select count(*) into v_other from postrider.outbox_exception x where x.id > k.position and x.id <= v_through;
    delete from postrider.outbox_event e where e.id > k.position and e.id <= v_through;
    get diagnostics removed = row_count;
    select coalesce(sum(upper(i) - lower(i)), 0) into v_counted
    from postrider.outbox_receipt r, unnest(r.events * int8multirange(int8range(k.position + 1, v_through + 1))) i
    where r.first_id <= v_through and r.position > k.position;
    if removed <> v_counted then
        raise exception using errcode = 'PR002',
            message = format('postrider: the log has %s rows with ids %s to %s, and the receipts say that %s were read', removed,
                k.position + 1, v_through, v_counted),
            hint = 'Nothing was removed. Look for rows that were inserted with ids of their own, restored, or deleted by hand: docs/runbook.md, RetentionStopped.';
    end if;
    removed := removed - v_other;
    update postrider.outbox_retention r set position = v_through where r.kind = 'published';
    -- The last that has all gaps, and what came after, say what the gaps are.
    delete from postrider.outbox_receipt r
    where r.position <= v_through and r.number < (select max(b.number) from postrider.outbox_receipt b where b.gaps is not null)
      and r.number < (select min(b.number) from (select b.number from postrider.outbox_receipt b where b.note is not null
          order by b.number desc limit 50) b);
end $$;
comment on function postrider.outbox_purge_events(interval, integer, boolean) is
'Removes events that were acknowledged at least as long ago as is given, from the beginning of the log, up to p_rows of them, with their receipts. Nothing above the position, and nothing at or behind a gap. Events that were not delivered leave their content in outbox_exception, and removed does not count them. The rows are counted against the receipts: a difference is PR002, and nothing is removed; it would be an event that was passed over. busy: another session is at it.';
revoke all on function postrider.outbox_purge_events(interval, integer, boolean) from public;
