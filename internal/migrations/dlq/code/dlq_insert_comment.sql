create or replace function postrider.dlq_insert_comment(p_entry uuid, p_group uuid, p_author text, p_author_id text, p_text text)
returns table (dlq_comment_id bigint, created_at timestamptz)
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp as $$
#variable_conflict use_column
begin
    perform postrider.access_check_author(p_author);
    if (p_entry is null) = (p_group is null) then
        raise exception using errcode = '22023', message = 'postrider: a comment is about an investigation or about a group';
    end if;
    -- The lock keeps a purge waiting, which then removes the comment with its investigation.
    if p_entry is not null then
        perform from postrider.dlq_entry e where e.dlq_entry_uuid = p_entry for key share;
    else
        perform from postrider.dlq_group g where g.dlq_group_uuid = p_group and g.dlq_group_uuid <> '00000000-0000-0000-0000-000000000000' for key share;
    end if;
    if not found then
        raise exception using errcode = 'P0002', message = format('postrider: there is no %s to comment on',
            case when p_group is null then 'investigation ' || p_entry else 'group ' || p_group end);
    end if;
    perform postrider.access_owe(array[case when p_entry is null then 'group.comment' else 'dlq.comment' end],
                                 case when p_entry is null then 'group' else 'entry' end, array[coalesce(p_entry, p_group)::text]);
    return query
    insert into postrider.dlq_comment as c (dlq_entry_uuid, dlq_group_uuid, author, author_id, text)
    values (p_entry, p_group, p_author, case when postrider.access_by_hand() or p_author_id is null then p_author else p_author_id end, p_text)
    returning c.dlq_comment_id, c.created_at;
end $$;
comment on function postrider.dlq_insert_comment(uuid, uuid, text, text, text) is
'Adds a comment to the thread of an investigation, or of a group where the first argument is null. The author of a command or of SQL is its login (access_check_author); its p_author_id is not used. The API says with it which person of that name it is.';
revoke all on function postrider.dlq_insert_comment(uuid, uuid, text, text, text) from public;
