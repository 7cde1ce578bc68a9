create or replace function postrider.dlq_forget_source(p_source text, out commands bigint, out redrives bigint, out since timestamptz)
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp as $$
declare
    ended record;
begin
    perform postrider.access_owe('{source.forget}', 'source', array[p_source]);
    insert into postrider.dlq_source (source) values (p_source) on conflict do nothing;
    -- An answer of the source that is being noted locks the source, and then operations. So it is waited for here; an operation that asks the
    -- source is not.
    perform from postrider.dlq_source s where s.source = p_source for no key update;
    -- Operations are locked before the source, as one that asks it does. One that asks for the first time between the two statements may
    -- deadlock; then this transaction is tried again.
    perform from postrider.dlq_operation o
    where o.dlq_operation_uuid in (select r.dlq_operation_uuid from postrider.dlq_redrive r where r.source = p_source and r.outcome is null)
    order by o.dlq_operation_uuid for update;
    -- Who asks the source of something has a key share lock: that is either here, or sees that the source is forgotten.
    perform from postrider.dlq_source s where s.source = p_source for update;
    update postrider.dlq_source s set forgotten_at = coalesce(s.forgotten_at, clock_timestamp()), stopped = null, stopped_at = null
    where s.source = p_source returning s.forgotten_at into since;
    update postrider.dlq_command c
    set answered_at = clock_timestamp(), answer = 'abandoned', request = c.request - '{payload, headers, unreadable_headers}'::text[]
    where c.source = p_source and c.answered_at is null;
    get diagnostics commands = row_count;
    with lost as (
        update postrider.dlq_redrive r set outcome = 'unknown', finished_at = now() where r.source = p_source and r.outcome is null
        returning r.dlq_operation_uuid, r.dlq_entry_uuid
    )
    select count(*) as redrives, array_agg(l.dlq_operation_uuid) as operations, array_agg(l.dlq_entry_uuid) as entries,
           array_agg('source_forgotten'::text) as reasons into ended from lost l;
    redrives := ended.redrives;
    perform postrider.dlq_refuse_items(ended.operations, ended.entries, ended.reasons);
end $$;
comment on function postrider.dlq_forget_source(text) is
'Says that a source is gone for good: the commands that it has not answered are abandoned, what became of the redrives on their way is unknown, so that they fail in their operations, and it is asked nothing any more. Its investigations stay. Returns how many commands and redrives that were, and since when it is forgotten. Again it finds what was left, and nothing else.';
revoke all on function postrider.dlq_forget_source(text) from public;
