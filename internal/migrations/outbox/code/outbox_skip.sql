create or replace function postrider.outbox_skip(event bigint, reason text) returns void
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp set lock_timeout = '1s'
set enable_seqscan = off set enable_bitmapscan = off as $$
declare
    x postrider.outbox_exception;
    v_state text;
begin
    if coalesce(reason, '') = '' then
        raise exception using errcode = '22023', message = 'postrider: reason is empty, it goes into the dead letter';
    end if;
    loop
        select * into x from postrider.outbox_exception o where o.id = event for update;
        if found then
            if x.sending_since is not null then
                raise exception using errcode = '55000', message = format('postrider: event %s cannot be skipped', event),
                    detail = 'it is on its way right now', hint = 'Ask again in a few seconds.';
            elsif x.state not in ('parked', 'scheduled') then
                raise exception using errcode = '55000', message = format('postrider: event %s cannot be skipped', event),
                    detail = format('it is %s, only one that waits can be skipped', x.state);
            end if;
            perform postrider.access_owe('{outbox.skip}', 'event', array[event::text]);
            perform postrider.outbox_exhaust(event, reason);
            -- The next one of the key need not wait for the retry of this one; where the key waited for this one alone, all of it goes on.
            update postrider.outbox_hold o
            set next_probe_at = clock_timestamp(), asked = case when o.cause = 'redrive' then 'release' else o.asked end
            where o.scope = 'key' and o.event_id = x.event_id and o.next_probe_at <> 'infinity';
            return;
        end if;
        select v.state into v_state from postrider.v_outbox_event v where v.id = event;
        if not found then
            raise exception using errcode = 'P0002', message = format('postrider: there is no event %s', coalesce(event::text, 'null')),
                hint = 'Events are named by outbox_event.id.';
        elsif v_state = 'published' then
            raise exception using errcode = '55000', message = format('postrider: event %s cannot be skipped', event),
                detail = 'it is published, only one that waits can be skipped';
        elsif v_state = 'pending' then
            perform postrider.access_owe('{outbox.skip}', 'event', array[event::text]);
            insert into postrider.outbox_skip_request (id, reason) values (event, outbox_skip.reason)
            on conflict (id) do update set reason = excluded.reason;
            return;
        end if;
        -- It became an exception between the two looks: the first look finds it now.
    end loop;
end $$;
comment on function postrider.outbox_skip(bigint, text) is
'Gives up an event that waits: it becomes a dead letter with the reason, and the later ones of its key go on. One that the log still has before it is given up when the leader reaches it, unless it is on its way already.';
revoke all on function postrider.outbox_skip(bigint, text) from public;
