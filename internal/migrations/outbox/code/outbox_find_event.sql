create or replace function postrider.outbox_find_event(p_event_id uuid) returns bigint
language plpgsql stable security definer set search_path = pg_catalog, pg_temp
set enable_seqscan = off set enable_bitmapscan = off set enable_sort = off set jit = off as $$
declare
    v_id    bigint;
    v_at    timestamptz;
    v_low   bigint;
    v_high  bigint;
    v_last  bigint;
    v_found timestamptz;
    v_edge  timestamptz;
    v_from  bigint;
    v_apart interval;
begin
    -- What did not simply go has an index.
    select x.id into v_id from postrider.outbox_exception x where x.event_id = p_event_id order by x.id desc limit 1;
    if found or substr(p_event_id::text, 15, 1) <> '7' then
        return v_id;
    end if;
    v_at := to_timestamp(('x' || left(replace(p_event_id::text, '-', ''), 12))::bit(48)::bigint / 1000.0);
    -- The log is in the order of time but for the moments between drawing an id and looking at the clock: halve it until both
    -- ends of that time are found. A clock that was put right meanwhile asks for more of it.
    foreach v_apart in array array[interval '1 second', interval '2 minutes'] loop
        v_from := null;
        foreach v_edge in array array[v_at - v_apart, v_at + v_apart] loop
            select min(e.id), max(e.id) + 1 into v_low, v_high from postrider.outbox_event e;
            while v_low < v_high loop
                v_last := v_low + (v_high - v_low) / 2;
                select e.id, e.created_at into v_id, v_found from postrider.outbox_event e where e.id >= v_last and e.id < v_high
                    order by e.id limit 1;
                if not found or v_found >= v_edge then
                    v_high := v_last;
                else
                    v_low := v_id + 1;
                end if;
            end loop;
            if v_from is null then
                v_from := v_low;
            end if;
        end loop;
        select e.id into v_id from postrider.outbox_event e where e.id >= v_from and e.id < v_low and e.event_id = p_event_id order by e.id limit 1;
        if found then
            return v_id;
        end if;
    end loop;
    return null;
end $$;
comment on function postrider.outbox_find_event(uuid) is
'outbox_event.id of an event by its event_id, at any age; null where there is none. The id begins with the time, so about 60 rows of the log tell where to look, and then the rows of two seconds are read.';
revoke all on function postrider.outbox_find_event(uuid) from public;
