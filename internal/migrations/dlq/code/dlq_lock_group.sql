create or replace function postrider.dlq_lock_group(p_group uuid) returns table (state text, pending bigint)
language sql volatile security definer set search_path = pg_catalog, pg_temp as $$
    select postrider.dlq_group_state(g.state, g.muted_until, g.created_at, g.pending), g.pending
    from postrider.dlq_group g where g.dlq_group_uuid = p_group for no key update
$$;
comment on function postrider.dlq_lock_group(uuid) is 'Locks a group, and says where it stands.';
revoke all on function postrider.dlq_lock_group(uuid) from public;
