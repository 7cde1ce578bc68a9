-- Without settings of its own, so that it is inlined. Callers have the owner's rights, and switch off the plans that tempt
-- the planner.
create or replace function postrider.outbox_content(p_id bigint, p_event_id uuid)
returns table (kind text, key bytea, payload bytea, headers jsonb, task_uuid uuid, max_attempts integer, partition integer, record_timestamp timestamptz)
language sql stable as $$
    select case when x.copied then x.kind else e.kind::text end, case when x.copied then x.key else e.key end,
           case when x.copied then x.payload else e.payload::bytea end, case when x.copied then x.headers else e.headers::jsonb end,
           case when x.copied then x.task_uuid else e.task_uuid end, case when e.id is null then x.max_attempts else e.max_attempts::integer end,
           case when x.copied then x.partition else e.partition::integer end, case when x.copied then x.timestamp else e.timestamp::timestamptz end
    from (select p_id as id) w
    left join lateral (
        select o.* from postrider.outbox_exception o where o.id = w.id and o.event_id = p_event_id limit 1) x on true
    left join lateral (
        select o.* from postrider.outbox_event o where o.id = w.id and o.event_id = p_event_id limit 1) e on true
    where x.id is not null or e.id is not null
$$;
comment on function postrider.outbox_content(bigint, uuid) is
'Internal. What an event carries: the copy of its exception, where that has one, and what the log has otherwise. No row is returned for an event that is gone. max_attempts is the writer''s; where the log does not have the row any more, it is what counted when the event last failed.';
revoke all on function postrider.outbox_content(bigint, uuid) from public;
