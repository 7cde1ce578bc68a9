create or replace function postrider.dlq_group_state(p_state text, p_muted_until timestamptz, p_created_at timestamptz, p_pending bigint)
returns text language sql stable parallel safe as $$
    select case when p_state = 'muted' and p_muted_until <= now() then case when p_pending > 0 then 'ongoing' else 'resolved' end
                when p_state = 'new' and p_created_at < now() - interval '1 day' then 'ongoing'
                else p_state end
$$;
comment on function postrider.dlq_group_state(text, timestamptz, timestamptz, bigint) is
'The state of a group now. The state new, and a mute until a time, end by themselves.';
