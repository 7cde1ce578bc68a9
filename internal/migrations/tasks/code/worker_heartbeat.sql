create or replace function postrider.worker_heartbeat(p_namespace text, p_worker text) returns void
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp set enable_seqscan = off set jit = off as $$
declare
    v_namespace uuid;
begin
    select ns.task_namespace_uuid into v_namespace from postrider.tasker_task_namespaces ns where ns.name = p_namespace;
    if not found then
        raise exception using errcode = 'P0002', message = format('postrider: there is no namespace %s', coalesce(quote_literal(p_namespace), 'null')),
            hint = 'A namespace is there once a template of it was applied: postrider template apply.';
    end if;
    if p_worker is null or octet_length(p_worker) not between 1 and 256 then
        raise exception using errcode = '22023', message = format('postrider: the name of a worker is %s bytes, it must be 1 to 256', coalesce(octet_length(p_worker), 0));
    end if;
    update postrider.tasker_workers w set last_heartbeat_at = greatest(w.last_heartbeat_at, clock_timestamp())
     where w.task_namespace_uuid = v_namespace and w.worker = p_worker;
    if found then
        return;
    end if;
    insert into postrider.tasker_workers as w (task_namespace_uuid, worker) values (v_namespace, p_worker)
        on conflict (task_namespace_uuid, worker) do update set last_heartbeat_at = greatest(w.last_heartbeat_at, clock_timestamp());
    -- Names come and go with processes, so a new one takes old ones along. It stays itself: the namespace has a worker.
    delete from postrider.tasker_workers w
     where w.task_namespace_uuid = v_namespace and w.worker in (
           select o.worker from postrider.tasker_workers o
            where o.task_namespace_uuid = v_namespace and o.last_heartbeat_at < clock_timestamp() - interval '30 days'
            limit 100 for update skip locked);
end $$;
comment on function postrider.worker_heartbeat(text, text) is
'For workers: says that a worker of a namespace is there. Once a minute is enough. While a namespace has workers and none was heard of, its stale tasks say worker_unavailable. The call of a new worker removes workers of the namespace that were not heard of for 30 days. P0002 for an unknown namespace.';
revoke all on function postrider.worker_heartbeat(text, text) from public;
