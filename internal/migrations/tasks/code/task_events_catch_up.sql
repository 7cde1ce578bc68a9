create or replace function postrider.task_events_catch_up(p_limit integer default 100)
returns table (moved integer, refused integer, waiting integer)
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp set lock_timeout = '500ms'
set enable_seqscan = off set jit = off as $$
declare
    u record;
    r record;
    v_locked boolean := false;
begin
    moved := 0;
    refused := 0;
    waiting := 0;
    for u in select n.* from postrider.tasker_undelivered_events n where n.outcome = 'waiting'
             order by n.tried_at limit p_limit for update skip locked loop
        begin
            select d.outcome, d.detail into r
              from postrider.task_event_undelivered(u.task_uuid, u.event_id, u.episode, u.topic, u.attempts, u.error_class, u.error_code, u.error_message,
                                                    u.sort_key, u.noted_at) d;
        exception
            when lock_not_available then -- of a table: the others would wait as long
                v_locked := true;
                select 'waiting' as outcome, left(sqlerrm, 1000) as detail into r;
            when others then
                select 'waiting' as outcome, left(sqlerrm, 1000) as detail into r;
        end;
        update postrider.tasker_undelivered_events n set outcome = r.outcome, detail = r.detail, tried_at = clock_timestamp()
         where n.event_id = u.event_id and n.episode = u.episode;
        moved := moved + (r.outcome = 'moved')::integer;
        refused := refused + (r.outcome = 'refused')::integer;
        waiting := waiting + (r.outcome = 'waiting')::integer;
        exit when v_locked;
    end loop;
    delete from postrider.tasker_undelivered_events n
     where (n.event_id, n.episode) in (
        select o.event_id, o.episode from postrider.tasker_undelivered_events o
         where o.outcome <> 'waiting' and o.noted_at < now() - interval '30 days'
         order by o.noted_at limit p_limit for update skip locked);
    return next;
end $$;
comment on function postrider.task_events_catch_up(integer) is
'Tries again to move tasks whose events were given up while another transaction was at work on them, the one tried longest ago first, and removes notes older than 30 days, up to p_limit each. Defaults to 100. Returns what became of them.';
revoke all on function postrider.task_events_catch_up(integer) from public;
