drop function postrider.outbox_look(bigint, uuid);
drop index if exists postrider.dlq_entry_message;
-- Only here is it in this schema; where somebody else made it, or uses it, it stays.
do $$
begin
    if exists (select from pg_extension where extname = 'pg_trgm' and extnamespace = 'postrider'::regnamespace) then
        drop extension pg_trgm;
    end if;
end $$;
drop function postrider.dlq_index_messages();
drop trigger dlq_replay_begun on postrider.dlq_replay;
drop function postrider.dlq_group_redriven();
drop trigger dlq_entry_truncated on postrider.dlq_entry;
drop trigger dlq_entry_counted_out on postrider.dlq_entry;
drop trigger dlq_entry_counted on postrider.dlq_entry;
drop trigger dlq_entry_counted_in on postrider.dlq_entry;
drop function postrider.dlq_count_nothing();
drop function postrider.dlq_recount();
drop function postrider.dlq_count_entries();
drop type postrider.dlq_delta;
drop function postrider.dlq_group_state(text, timestamptz, timestamptz, bigint);
alter table postrider.dlq_entry reset (autovacuum_vacuum_insert_scale_factor);
drop index postrider.dlq_entry_assignee;
drop index postrider.dlq_entry_predecessor;
drop index postrider.dlq_entry_group;
create index dlq_entry_group on postrider.dlq_entry (dlq_group_uuid, resolution_status, created_at, dlq_entry_uuid);
comment on index postrider.dlq_entry_group is 'The investigations of a group.';
drop index postrider.dlq_entry_status;
create index dlq_entry_status on postrider.dlq_entry (resolution_status, created_at, dlq_entry_uuid);
comment on index postrider.dlq_entry_status is 'Listing by status, newest first.';
alter table postrider.dlq_entry alter column dlq_group_uuid drop not null, alter column dlq_group_uuid drop default;
update postrider.dlq_entry set dlq_group_uuid = null where dlq_group_uuid = '00000000-0000-0000-0000-000000000000';
alter table postrider.dlq_entry add foreign key (dlq_group_uuid) references postrider.dlq_group;
comment on column postrider.dlq_entry.dlq_group_uuid is 'Its group; null only for what was there before groups.';
drop view postrider.v_dlq_dashboard;
drop index postrider.dlq_entry_dashboard;
create index dlq_entry_reason on postrider.dlq_entry (dlq_reason);
comment on index postrider.dlq_entry_reason is 'Statistics per reason.';
drop table postrider.dlq_hour;
drop table postrider.dlq_count;
delete from postrider.dlq_group where dlq_group_uuid = '00000000-0000-0000-0000-000000000000';
drop index postrider.dlq_group_code;
drop index postrider.dlq_group_topic;
alter table postrider.dlq_group
    drop column entries, drop column occurrences, drop column error_code, drop column word, drop column assignee, drop column created_at,
    reset (fillfactor);
comment on column postrider.dlq_group.fingerprint_version is 'Which rule made it; a new rule makes new groups and leaves the old ones.';
create index dlq_group_seen on postrider.dlq_group (state, last_seen_at desc, dlq_group_uuid desc);
comment on index postrider.dlq_group_seen is 'Listing by state, newest first.';
