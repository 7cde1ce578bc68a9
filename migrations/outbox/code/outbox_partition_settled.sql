create or replace function postrider.outbox_partition_settled(part text) returns boolean
language plpgsql stable set search_path = pg_catalog, pg_temp set enable_seqscan = off set enable_bitmapscan = off as $$
declare
    settled boolean;
begin
    execute format('select not exists (select from postrider.%1$I where state = ''pending'')
                       and not exists (select from postrider.%1$I where state = ''scheduled'')
                       and not exists (select from postrider.%1$I where state = ''parked'')
                       and not exists (select from postrider.%1$I where state = ''exhausted'')', part) into settled;
    return settled;
end $$;
comment on function postrider.outbox_partition_settled(text) is 'Whether no event of a partition waits, as far as is committed.';
revoke all on function postrider.outbox_partition_settled(text) from public;
