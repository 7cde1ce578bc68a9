create or replace function postrider.dlq_freeze_operation(
    p_operation uuid, p_until timestamptz, p_entries uuid[], p_groups uuid[], p_reason text, p_subject_type text, p_subject_id text, p_topic text,
    p_error_code text, p_assignee text, p_message text, p_from timestamptz, p_to timestamptz, p_status text,
    p_consumer_group text, p_dlq_topic text, p_about uuid[])
returns bigint language plpgsql volatile security definer set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_custom_plan as $$
declare
    frozen bigint;
begin
    -- Only for an operation that this transaction planned: later its scope cannot change.
    if not exists (select from postrider.dlq_operation o
                   where o.dlq_operation_uuid = p_operation and o.state = 'planned' and o.created_at = now()) then
        raise exception using errcode = '55000',
            message = format('postrider: the scope of operation %s cannot be changed', coalesce(p_operation::text, 'null')),
            detail = 'it is frozen in the transaction that plans the operation';
    end if;
    -- In the order in which the messages were written, as far as that is known.
    insert into postrider.dlq_operation_item (dlq_operation_uuid, item, dlq_entry_uuid)
    select p_operation, row_number() over (order by coalesce(l.origin_topic, ''), coalesce(l.outbox_id, 0), coalesce(l.origin_partition, 0),
                                                    coalesce(l.origin_offset, 0), l.dlq_topic, l.dlq_partition, l.dlq_offset, e.dlq_entry_uuid),
           e.dlq_entry_uuid
    from postrider.dlq_entry e
    left join lateral (
        select l.* from postrider.dlq_letter l where l.dlq_entry_uuid = e.dlq_entry_uuid
        order by coalesce(l.episode, 0) desc, l.recorded_at desc, l.dlq_partition desc, l.dlq_offset desc limit 1) l on true
    where case when p_entries is not null then e.dlq_entry_uuid = any (p_entries)
               else e.resolution_status = p_status::postrider.dlq_resolution_status and e.created_at <= p_until
                    and (p_groups is null or e.dlq_group_uuid = any (p_groups))
                    and (p_reason = '' or e.dlq_reason = nullif(p_reason, '')::postrider.dlq_reason)
                    and (p_subject_type = '' or e.subject_type = p_subject_type)
                    and (p_subject_id = '' or e.subject_id = p_subject_id)
                    and (p_topic = '' or e.topic = p_topic)
                    and (p_error_code = '' or e.error_code = p_error_code)
                    and (p_consumer_group = '' or e.consumer_group = p_consumer_group)
                    and (p_dlq_topic = '' or e.dlq_topic = p_dlq_topic)
                    and (p_about is null or e.dlq_entry_uuid = any (p_about))
                    and (p_assignee = '' or e.assignee = p_assignee)
                    and (p_message = ''
                         or coalesce(e.error_message, '') || coalesce(' | ' || e.root_cause, '') || coalesce(' | ' || e.root_frame, '') ilike p_message)
                    and (p_from is null or e.created_at >= p_from) and (p_to is null or e.created_at <= p_to)
          end;
    get diagnostics frozen = row_count;
    return frozen;
end $$;
comment on function postrider.dlq_freeze_operation(uuid, timestamptz, uuid[], uuid[], text, text, text, text, text, text, text, timestamptz, timestamptz, text, text, text, uuid[]) is
'Writes the scope of an operation that the same transaction planned, and returns how many investigations it has. Named investigations are taken as they are; otherwise all with a status, opened until a time, that fit the filter: the groups and the investigations that are given, and the other conditions. An empty text or a null does not filter.';
revoke all on function postrider.dlq_freeze_operation(uuid, timestamptz, uuid[], uuid[], text, text, text, text, text, text, text, timestamptz, timestamptz, text, text, text, uuid[]) from public;
