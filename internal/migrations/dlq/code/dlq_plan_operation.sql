create or replace function postrider.dlq_plan_operation(p_operation uuid, p_halting bigint[], p_foreseen jsonb) returns void
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_custom_plan as $$
begin
    with halting as (
        select distinct h.id from unnest(p_halting) h(id)
    ), scope as (
        select e.*, l.key, l.dialect, l.headers, l.payload_bytes, h.id is not null or there.halts as in_place, there.halts as halts_there,
               coalesce(l.origin_topic, e.topic, '') as origin, l.consumer_group as failed_group,
               -- As RedrivePlan chooses.
               coalesce(case p.options->>'target'
                            when 'group' then l.retry_topic
                            when 'origin' then coalesce(l.origin_topic, e.topic)
                            else coalesce(p.options->>'target', case when h.id is null then l.retry_topic end, l.origin_topic, e.topic)
                        end, '') as target,
               exists (select from postrider.dlq_redrive r where r.dlq_entry_uuid = e.dlq_entry_uuid) as redriven
        from postrider.dlq_operation p
        join postrider.dlq_operation_item i on i.dlq_operation_uuid = p.dlq_operation_uuid
        join postrider.dlq_entry e on e.dlq_entry_uuid = i.dlq_entry_uuid
        left join lateral (
            select l.* from postrider.dlq_letter l where l.dlq_entry_uuid = e.dlq_entry_uuid
            order by coalesce(l.episode, 0) desc, l.recorded_at desc limit 1) l on true
        left join halting h on h.id = l.outbox_id
        -- Of an event of another source the letter says it.
        cross join lateral (
            select l.halts_key is true and e.source <> 'main' and e.subject_type = 'event' and e.resolution_status = 'pending'
                and p.kind = 'redrive' and coalesce(p.options->>'target', 'origin') = 'origin' as halts) there
        where p.dlq_operation_uuid = p_operation
    ), counted as (
        -- Of all items: one whose investigation was purged since is treated, too, and skipped.
        select (select count(*) from postrider.dlq_operation_item i where i.dlq_operation_uuid = p_operation) as items,
               coalesce(sum(payload_bytes), 0)::bigint as bytes,
               count(distinct (origin, key)) filter (where key is not null and not in_place) as keys, -- in its place nothing is overtaken
               count(*) filter (where halts_there) as halting_there,
               count(*) filter (where redriven) as redriven,
               count(*) filter (where subject_type = 'task') as tasks,
               count(*) filter (
                   where dialect = 'postrider' and jsonb_path_exists(headers, 'strict $[*] ? (@[0] == "postrider-invalid-headers")', '{}', true)
                   or jsonb_path_exists(headers, 'strict $[*] ? (@[0] == "" || @[0] like_regex "[\\x01-\\x1f\\x7f]")', '{}', true)) as unreadable
        from scope
    ), topics as (
        select coalesce(jsonb_object_agg(target, n), '{}') as topics,
               coalesce(jsonb_agg(jsonb_build_object('topic', target, 'messages', sent, 'failed', failed, 'again', again) order by target)
                            filter (where target <> '' and sent > 0), '[]') as reaches
        from (select target, count(*) as n, count(*) filter (where subject_type <> 'task') as sent, bool_or(subject_type = 'record') as again,
                     coalesce(jsonb_agg(distinct failed_group) filter (where failed_group is not null), '[]') as failed
              from scope group by target) t
    )
    update postrider.dlq_operation p
    set items = c.items,
        -- What is counted here stands: the caller adds, and replaces nothing.
        plan = coalesce(p_foreseen, '{}') || jsonb_build_object(
            'items', c.items, 'bytes', c.bytes, 'keys', c.keys, 'redriven', c.redriven, 'tasks', c.tasks, 'topics', t.topics,
            'reaches', t.reaches, 'halting', (select count(*) from halting) + c.halting_there, 'unreadable_headers', c.unreadable)
    from counted c, topics t where p.dlq_operation_uuid = p_operation and p.state = 'planned' and p.created_at = now();
    if not found then
        raise exception using errcode = '55000',
            message = format('postrider: operation %s cannot be planned', coalesce(p_operation::text, 'null')),
            detail = 'only the transaction that wrote it does';
    end if;
end $$;
comment on function postrider.dlq_plan_operation(uuid, bigint[], jsonb) is
'Notes what an operation that the same transaction planned would do to its scope; the second argument are the ids of its outbox events that halt their key and go back to their place. Of events of other sources their letters say it. The third is what the caller has found besides, an object that is added to the plan and replaces nothing in it: left_out, foreseen, overlapping and overlaps. Null adds nothing.';
revoke all on function postrider.dlq_plan_operation(uuid, bigint[], jsonb) from public;
