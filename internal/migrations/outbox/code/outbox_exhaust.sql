create or replace function postrider.outbox_exhaust(p_id bigint, p_reason text) returns void
language plpgsql volatile set search_path = pg_catalog, pg_temp as $$
begin
    update postrider.outbox_exception o
    set state = 'exhausted', hold_id = null, episode = o.episode + 1, next_attempt_at = null, updated_at = clock_timestamp(), closed_at = null,
        first_error_at = coalesce(o.first_error_at, statement_timestamp()), last_error_at = statement_timestamp(),
        last_error_class = 'permanent', last_error_code = 'SKIPPED', last_error = 'skipped by hand: ' || p_reason,
        copied = true, kind = case when o.copied then o.kind else e.kind end, key = case when o.copied then o.key else e.key end,
        payload = case when o.copied then o.payload else e.payload end, headers = case when o.copied then o.headers else e.headers end,
        task_uuid = case when o.copied then o.task_uuid else e.task_uuid end,
        idempotency_key = case when o.copied then o.idempotency_key else e.idempotency_key end,
        created_at = case when o.copied then o.created_at else e.created_at end,
        partition = case when o.copied then o.partition else e.partition end,
        timestamp = case when o.copied then o.timestamp else e.timestamp end, max_attempts = coalesce(o.max_attempts, e.max_attempts)
    from (select i.id, v.* from (values (p_id)) i(id)
          left join lateral (select e.kind, e.key, e.payload, e.headers, e.task_uuid, e.idempotency_key, e.created_at, e.max_attempts, e.partition, e.timestamp
                             from postrider.outbox_event e where e.id = i.id) v on true) e
    where o.id = p_id and e.id = o.id;
    perform postrider.outbox_tell_tasks(array[p_id]);
end $$;
comment on function postrider.outbox_exhaust(bigint, text) is
'Internal. Gives up an exception that waits and whose row is locked, and moves its task.';
revoke all on function postrider.outbox_exhaust(bigint, text) from public;
