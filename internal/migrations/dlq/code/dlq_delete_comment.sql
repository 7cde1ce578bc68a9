create or replace function postrider.dlq_delete_comment(p_entry uuid, p_group uuid, p_comment bigint, p_author text, p_author_id text) returns boolean
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp as $$
declare
    v_author_id constant text := case when postrider.access_by_hand() or p_author_id is null then p_author else p_author_id end;
    found_one record;
begin
    perform postrider.access_check_author(p_author);
    select c.author, c.author_id, c.deleted_at into found_one from postrider.dlq_comment c
    where c.dlq_comment_id = p_comment and c.dlq_entry_uuid is not distinct from p_entry and c.dlq_group_uuid is not distinct from p_group
    for no key update;
    if not found then
        raise exception using errcode = 'P0002', message = format('postrider: there is no comment %s in this thread', coalesce(p_comment::text, 'null'));
    elsif found_one.author_id is distinct from v_author_id then
        raise exception using errcode = '55000', message = format('postrider: comment %s is not deleted', p_comment),
            detail = format('it was written by %s, who alone can delete it', found_one.author);
    elsif found_one.deleted_at is not null then
        return false;
    end if;
    perform postrider.access_owe(array[case when p_entry is null then 'group.comment_delete' else 'dlq.comment_delete' end],
                                 case when p_entry is null then 'group' else 'entry' end, array[coalesce(p_entry, p_group)::text]);
    update postrider.dlq_comment c set text = null, deleted_at = now() where c.dlq_comment_id = p_comment;
    return true;
end $$;
comment on function postrider.dlq_delete_comment(uuid, uuid, bigint, text, text) is
'Removes the text of a comment of this author, which stays in its thread as deleted. False where it was deleted before. The author of a command or of SQL is its login (access_check_author); its p_author_id is not used. The API says with it which person of that name it is.';
revoke all on function postrider.dlq_delete_comment(uuid, uuid, bigint, text, text) from public;
