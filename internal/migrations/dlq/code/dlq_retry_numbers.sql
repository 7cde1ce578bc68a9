create or replace function postrider.dlq_retry_numbers() returns table(dlq_reason postrider.dlq_reason, requeued bigint, avg_retries double precision)
language sql stable security definer set search_path = pg_catalog, pg_temp set jit = off as $$
    with letters as (
        select l.dlq_entry_uuid, max(l.attempts) as attempts, max(l.episode) as episode
        from postrider.dlq_letter l where l.dlq_entry_uuid is not null group by l.dlq_entry_uuid
    ), entries as (
        select e.dlq_entry_uuid, e.dlq_reason, e.resolution_status,
               case when e.subject_type = 'event' and e.subject_id ~ '^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$'
                   then e.subject_id::uuid end as event_id,
               case when e.subject_type = 'task' and e.subject_id ~ '^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$'
                   then e.subject_id::uuid end as task_uuid
        from postrider.dlq_entry e
    )
    select e.dlq_reason,
           count(*) filter (where r.redrive_id is not null or l.episode > 1 or t.retry_count > 0
               or e.event_id is not null and e.resolution_status = 'pending' and g.event_id is null),
           avg(coalesce(l.attempts, t.retry_count))::double precision
    from entries e
    left join letters l on l.dlq_entry_uuid = e.dlq_entry_uuid
    left join postrider.dlq_redrive r on r.dlq_entry_uuid = e.dlq_entry_uuid and r.generation = 1
    left join postrider.task_retry_counts(array(select n.task_uuid from entries n where n.task_uuid is not null)) t on t.task_uuid = e.task_uuid
    left join postrider.outbox_given_up(array(select n.event_id from entries n where n.event_id is not null
        and n.resolution_status = 'pending')) g(event_id)
        on g.event_id = e.event_id
    group by e.dlq_reason
$$;
comment on function postrider.dlq_retry_numbers() is
'Per reason: how many investigations are of something that was sent again (redriven from the desk, or redriven by hand; a task that was retried as a whole), and how many attempts or retries it had on average.';
revoke all on function postrider.dlq_retry_numbers() from public;
