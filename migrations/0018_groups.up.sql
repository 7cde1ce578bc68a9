-- Groups of investigations: counters that triggers keep, so that nothing that changes an investigation can leave
-- them wrong, and the states that follow from them.

drop index postrider.dlq_group_seen; -- a row that counts is written often: without an index on what changes it is written in place
alter table postrider.dlq_group
    add column entries bigint not null default 0,
    add column occurrences bigint not null default 0,
    add column error_code text,
    add column word text not null default 'unknown',
    add column assignee text,
    add column created_at timestamptz not null default now(),
    set (fillfactor = 50);
comment on column postrider.dlq_group.entries is 'Investigations that were not purged.';
comment on column postrider.dlq_group.occurrences is 'Dead letters of these.';
comment on column postrider.dlq_group.error_code is 'Their error code.';
comment on column postrider.dlq_group.word is 'The reason in one word: the error code in small letters, or the first word of the message.';
comment on column postrider.dlq_group.assignee is 'Who looks at it.';
comment on column postrider.dlq_group.created_at is 'When it was first seen here.';
comment on column postrider.dlq_group.fingerprint_version is 'Which rule made it; a new rule makes new groups and leaves the old ones. 0: of what was there before groups.';
create index dlq_group_topic on postrider.dlq_group (topic);
comment on index postrider.dlq_group_topic is 'The groups of a topic.';
create index dlq_group_code on postrider.dlq_group (error_code);
comment on index postrider.dlq_group_code is 'The groups of an error code.';

create table postrider.dlq_count (
    dlq_group_uuid    uuid not null references postrider.dlq_group on delete cascade,
    dlq_reason        postrider.dlq_reason not null,
    subject_type      text not null,
    resolution_status postrider.dlq_resolution_status not null,
    entries           bigint not null,
    primary key (dlq_group_uuid, dlq_reason, subject_type, resolution_status)
) with (fillfactor = 50);
comment on table postrider.dlq_count is 'How many investigations there are. Kept by triggers on dlq_entry; dlq_recount() makes it anew.';
comment on column postrider.dlq_count.dlq_group_uuid is 'Of which group.';
comment on column postrider.dlq_count.dlq_reason is 'With which reason.';
comment on column postrider.dlq_count.subject_type is 'About what.';
comment on column postrider.dlq_count.resolution_status is 'And where they stand.';
comment on column postrider.dlq_count.entries is 'How many.';

create table postrider.dlq_hour (
    dlq_group_uuid uuid not null references postrider.dlq_group on delete cascade,
    hour           timestamptz not null,
    opened         bigint not null,
    primary key (dlq_group_uuid, hour)
) with (fillfactor = 50);
comment on table postrider.dlq_hour is 'How many of the investigations were opened in which hour. Kept by triggers on dlq_entry; dlq_recount() makes it anew.';
comment on column postrider.dlq_hour.dlq_group_uuid is 'Of which group.';
comment on column postrider.dlq_hour.hour is 'The beginning of the hour, in UTC.';
comment on column postrider.dlq_hour.opened is 'How many.';
create index dlq_hour_hour on postrider.dlq_hour (hour);
comment on index postrider.dlq_hour_hour is 'What was opened lately.';

-- What says no group belongs here, so that nothing is uncounted.
insert into postrider.dlq_group (dlq_group_uuid, fingerprint, fingerprint_version, parts, title, first_seen_at, last_seen_at, state)
values ('00000000-0000-0000-0000-000000000000', '0:none', 0, '{}', 'in no group', now(), now(), 'resolved');

-- What was there before gets groups by what the database can tell: the message does not count.
with told as (
    select coalesce(e.error_code, '') as error_code, case when e.error_code is null then e.dlq_reason::text else '' end as reason,
           coalesce(e.topic, '') as topic, min(least(e.dlq_timestamp, e.last_occurred_at, now())) as first_seen, max(least(e.last_occurred_at, now())) as last_seen
    from postrider.dlq_entry e group by 1, 2, 3
)
insert into postrider.dlq_group (fingerprint, fingerprint_version, parts, title, topic, error_code, word, first_seen_at, last_seen_at, state)
select '0:' || md5(jsonb_build_array(t.error_code, t.reason, t.topic)::text), 0,
       jsonb_strip_nulls(jsonb_build_object('error_code', nullif(t.error_code, ''), 'reason', nullif(t.reason, ''), 'topic', nullif(t.topic, ''))),
       concat(nullif(t.error_code, ''), nullif(t.reason, ''), ' (' || nullif(t.topic, '') || ')'),
       nullif(t.topic, ''), nullif(t.error_code, ''), lower(coalesce(nullif(t.error_code, ''), 'unknown')), t.first_seen, t.last_seen, 'ongoing'
from told t;
update postrider.dlq_entry e set dlq_group_uuid = g.dlq_group_uuid
from postrider.dlq_group g
where g.fingerprint = '0:' || md5(jsonb_build_array(coalesce(e.error_code, ''), case when e.error_code is null then e.dlq_reason::text else '' end,
                                                    coalesce(e.topic, ''))::text);
update postrider.dlq_entry e set attempts = l.attempts
from (select distinct on (l.dlq_entry_uuid) l.dlq_entry_uuid, l.attempts from postrider.dlq_letter l
      where l.dlq_entry_uuid is not null order by l.dlq_entry_uuid, l.recorded_at desc) l
where l.dlq_entry_uuid = e.dlq_entry_uuid;
-- A collector of the version before writes no group. The triggers see to it that a group exists: a foreign key would
-- lock the group's row for each investigation.
alter table postrider.dlq_entry
    drop constraint dlq_entry_dlq_group_uuid_fkey,
    alter column dlq_group_uuid set default '00000000-0000-0000-0000-000000000000',
    alter column dlq_group_uuid set not null;
comment on column postrider.dlq_entry.dlq_group_uuid is 'Its group. All zeroes: in no group.';

-- The expression keeps these two apart from dlq_entry_created: an order by created_at could also be read from that
-- one, and would be, to find what all is older than a million others. With the column itself beside it, counting and
-- passing over read the index alone.
drop index postrider.dlq_entry_group;
create index dlq_entry_group on postrider.dlq_entry (dlq_group_uuid, resolution_status, (created_at at time zone 'UTC'), dlq_entry_uuid) include (created_at);
comment on index postrider.dlq_entry_group is 'The investigations of a group.';
drop index postrider.dlq_entry_status;
create index dlq_entry_status on postrider.dlq_entry (resolution_status, (created_at at time zone 'UTC'), dlq_entry_uuid) include (created_at);
comment on index postrider.dlq_entry_status is 'Listing by status, newest first.';

create index dlq_entry_predecessor on postrider.dlq_entry (predecessor_uuid) where predecessor_uuid is not null;
comment on index postrider.dlq_entry_predecessor is 'What came after an investigation, for the foreign key.';
create index dlq_entry_assignee on postrider.dlq_entry (assignee, created_at, dlq_entry_uuid) where assignee is not null;
comment on index postrider.dlq_entry_assignee is 'What somebody looks at.';

-- What is counted or passed over is read from the index alone where vacuum has been, so it comes for every hundredth
-- that is new, and empties the list of messages that wait to be indexed.
alter table postrider.dlq_entry set (autovacuum_vacuum_insert_scale_factor = 0.01);

create function postrider.dlq_group_state(p_state text, p_muted_until timestamptz, p_created_at timestamptz, p_pending bigint)
returns text language sql stable parallel safe as $$
    select case when p_state = 'muted' and p_muted_until <= now() then case when p_pending > 0 then 'ongoing' else 'resolved' end
                when p_state = 'new' and p_created_at < now() - interval '1 day' then 'ongoing'
                else p_state end
$$;
comment on function postrider.dlq_group_state(text, timestamptz, timestamptz, bigint) is
'The state of a group now: what is muted until a time and what is new end by themselves.';

create type postrider.dlq_delta as (
    dlq_group_uuid uuid, dlq_reason postrider.dlq_reason, subject_type text, resolution_status postrider.dlq_resolution_status,
    hour timestamptz, opened bigint, entries bigint, occurrences bigint, first_seen timestamptz, last_seen timestamptz, newest uuid);
comment on type postrider.dlq_delta is 'By how much a statement changed what is counted of investigations.';

-- The rows of a statement have no index: compared without a hash they cost their square, and who changes many switches
-- hashes off for what does have one.
create function postrider.dlq_count_entries() returns trigger
language plpgsql security definer set search_path = pg_catalog, pg_temp set enable_hashjoin = on as $$
declare
    deltas  postrider.dlq_delta[];
    acted   uuid[];
    touched uuid[];
    locked  integer;
begin
    if tg_op = 'INSERT' then
        select array_agg(row(a.*)::postrider.dlq_delta) into deltas from (
            select dlq_group_uuid, dlq_reason, subject_type, resolution_status, date_trunc('hour', created_at, 'UTC'), count(*), count(*),
                   sum(occurrences), min(least(dlq_timestamp, last_occurred_at, now())), max(least(last_occurred_at, now())),
                   (array_agg(dlq_entry_uuid order by created_at desc, dlq_entry_uuid desc))[1]
            from added group by 1, 2, 3, 4, 5) a;
    elsif tg_op = 'DELETE' then
        select array_agg(row(r.*)::postrider.dlq_delta) into deltas from (
            select dlq_group_uuid, dlq_reason, subject_type, resolution_status, date_trunc('hour', created_at, 'UTC'), 0, -count(*),
                   -sum(occurrences), null::timestamptz, null::timestamptz, null::uuid
            from removed group by 1, 2, 3, 4, 5) r;
    else
        -- Most changes touch nothing that is counted.
        select array_agg(row(b.*)::postrider.dlq_delta) into deltas from (
            select c.dlq_group_uuid, c.dlq_reason, c.subject_type, c.resolution_status, date_trunc('hour', c.created_at, 'UTC'), 0,
                   sum(c.n), sum(c.n * c.occurrences), null::timestamptz, max(least(c.last_occurred_at, now())) filter (where c.n > 0),
                   null::uuid
            from (
                select 1 as n, a.dlq_group_uuid, a.dlq_reason, a.subject_type, a.resolution_status, a.created_at, a.occurrences, a.last_occurred_at
                from added a
                union all
                select -1, r.dlq_group_uuid, r.dlq_reason, r.subject_type, r.resolution_status, r.created_at, r.occurrences, r.last_occurred_at
                from removed r) c
            group by 1, 2, 3, 4, 5
            having sum(c.n) <> 0 or sum(c.n * c.occurrences) <> 0
                or max(c.last_occurred_at) filter (where c.n > 0) is distinct from max(c.last_occurred_at) filter (where c.n < 0)) b;
        select array_agg(distinct a.dlq_group_uuid) into acted
        from added a join removed r using (dlq_entry_uuid)
        where (a.resolution_status, a.resolution_notes, a.assignee, a.metadata) is distinct from
              (r.resolution_status, r.resolution_notes, r.assignee, r.metadata);
    end if;
    if deltas is null and acted is null then
        return null;
    end if;
    select array_agg(distinct t.id order by t.id) into touched
    from (select d.dlq_group_uuid from unnest(deltas) d
          union
          select g.dlq_group_uuid from postrider.dlq_group g where g.dlq_group_uuid = any (acted) and g.state = 'new') t(id);
    if touched is null then
        return null;
    end if;
    -- Everybody locks groups in this order, and looks at them after.
    perform from postrider.dlq_group g where g.dlq_group_uuid = any (touched) order by g.dlq_group_uuid for no key update;
    get diagnostics locked = row_count;
    if locked < cardinality(touched) then
        raise exception using errcode = '23503', message = 'postrider: an investigation names a group that does not exist',
            hint = 'Insert the group into dlq_group first, or leave dlq_group_uuid out.';
    end if;
    insert into postrider.dlq_count as c (dlq_group_uuid, dlq_reason, subject_type, resolution_status, entries)
    select d.dlq_group_uuid, d.dlq_reason, d.subject_type, d.resolution_status, sum(d.entries)
    from unnest(deltas) d group by 1, 2, 3, 4 having sum(d.entries) <> 0
    on conflict on constraint dlq_count_pkey do update set entries = c.entries + excluded.entries;
    insert into postrider.dlq_hour as h (dlq_group_uuid, hour, opened)
    select d.dlq_group_uuid, d.hour, sum(d.entries) from unnest(deltas) d group by 1, 2 having sum(d.entries) <> 0
    on conflict on constraint dlq_hour_pkey do update set opened = h.opened + excluded.opened;
    if tg_op <> 'INSERT' then
        delete from postrider.dlq_count c where c.dlq_group_uuid = any (touched) and c.entries = 0;
        delete from postrider.dlq_hour h where h.dlq_group_uuid = any (touched) and h.opened = 0;
    end if;
    update postrider.dlq_group g
    set total = greatest(g.total + n.opened, g.entries + n.entries), entries = g.entries + n.entries, pending = n.pending, occurrences = g.occurrences + n.occurrences,
        first_seen_at = least(g.first_seen_at, n.first_seen), last_seen_at = greatest(g.last_seen_at, n.last_seen),
        last_entry_uuid = n.last_entry, updated_at = now(),
        resolved_through = case when n.pending = 0 and n.was_open then clock_timestamp() else g.resolved_through end,
        muted_until = case when n.state = 'muted' then g.muted_until end,
        state = case when n.state = 'muted' then 'muted'
                     when n.pending = 0 then 'resolved'
                     when n.state <> 'resolved' then case when g.dlq_group_uuid = any (acted) and n.state = 'new' then 'ongoing' else n.state end
                     when n.last_seen > g.resolved_through then 'regressed'
                     else 'ongoing' end
    from (
        select o.dlq_group_uuid, postrider.dlq_group_state(o.state, o.muted_until, o.created_at, o.pending) as state,
               o.pending > 0 or (o.state <> 'resolved' and o.state <> 'muted') as was_open, o.pending + coalesce(d.pending, 0) as pending,
               coalesce(d.opened, 0) as opened, coalesce(d.entries, 0) as entries, coalesce(d.occurrences, 0) as occurrences,
               d.first_seen, d.last_seen,
               case when tg_op = 'INSERT' then (
                        select e.dlq_entry_uuid from postrider.dlq_entry e
                        where e.dlq_entry_uuid = o.last_entry_uuid or e.dlq_entry_uuid = any (d.newest)
                        order by e.created_at desc, e.dlq_entry_uuid desc limit 1)
                    when exists (select from postrider.dlq_entry e
                                 where e.dlq_entry_uuid = o.last_entry_uuid and e.dlq_group_uuid = o.dlq_group_uuid) then o.last_entry_uuid
                    else (
                        select l.dlq_entry_uuid
                        from unnest(enum_range(null::postrider.dlq_resolution_status)) s,
                             lateral (select e.dlq_entry_uuid, e.created_at from postrider.dlq_entry e
                                      where e.dlq_group_uuid = o.dlq_group_uuid and e.resolution_status = s
                                      order by (e.created_at at time zone 'UTC') desc, e.dlq_entry_uuid desc limit 1) l
                        order by l.created_at desc, l.dlq_entry_uuid desc limit 1) end as last_entry
        from postrider.dlq_group o
        left join (select d.dlq_group_uuid, sum(d.opened) as opened, sum(d.entries) as entries, sum(d.occurrences) as occurrences,
                          sum(d.entries) filter (where d.resolution_status = 'pending') as pending,
                          min(d.first_seen) as first_seen, max(d.last_seen) as last_seen,
                          array_agg(d.newest) filter (where d.newest is not null) as newest
                   from unnest(deltas) d group by 1) d on d.dlq_group_uuid = o.dlq_group_uuid
        where o.dlq_group_uuid = any (touched)) n
    where g.dlq_group_uuid = n.dlq_group_uuid;
    return null;
end $$;
comment on function postrider.dlq_count_entries() is
'Keeps the counters and states of groups, once per statement. It locks the groups in the order of their uuids.';
revoke all on function postrider.dlq_count_entries() from public;

create function postrider.dlq_recount() returns void
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
    lock table postrider.dlq_entry in share row exclusive mode;
    delete from postrider.dlq_count;
    insert into postrider.dlq_count (dlq_group_uuid, dlq_reason, subject_type, resolution_status, entries)
    select dlq_group_uuid, dlq_reason, subject_type, resolution_status, count(*) from postrider.dlq_entry group by 1, 2, 3, 4;
    delete from postrider.dlq_hour;
    insert into postrider.dlq_hour (dlq_group_uuid, hour, opened)
    select dlq_group_uuid, date_trunc('hour', created_at, 'UTC'), count(*) from postrider.dlq_entry group by 1, 2
    order by 2, 1; -- as they come to be, so that a time is in few pages
    update postrider.dlq_group g
    set entries = n.entries, total = greatest(g.total, n.entries), pending = n.pending, occurrences = n.occurrences, last_entry_uuid = n.last_entry,
        updated_at = now(), resolved_through = case when n.pending = 0 then coalesce(g.resolved_through, now()) else g.resolved_through end,
        state = case when g.state = 'muted' then 'muted' when n.pending = 0 then 'resolved' when g.state = 'resolved' then 'ongoing' else g.state end
    from (select o.dlq_group_uuid, count(e.dlq_entry_uuid) as entries, coalesce(sum(e.occurrences), 0) as occurrences,
                 count(*) filter (where e.resolution_status = 'pending') as pending,
                 (array_agg(e.dlq_entry_uuid order by e.created_at desc, e.dlq_entry_uuid desc) filter (where e.dlq_entry_uuid is not null))[1] as last_entry
          from postrider.dlq_group o left join postrider.dlq_entry e on e.dlq_group_uuid = o.dlq_group_uuid
          group by o.dlq_group_uuid) n
    where g.dlq_group_uuid = n.dlq_group_uuid;
end $$;
comment on function postrider.dlq_recount() is 'Counts all investigations anew. Nothing writes them meanwhile.';
revoke all on function postrider.dlq_recount() from public;
select postrider.dlq_recount();

create function postrider.dlq_count_nothing() returns trigger
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
    perform postrider.dlq_recount();
    return null;
end $$;
comment on function postrider.dlq_count_nothing() is 'Counts anew after all investigations were removed.';
revoke all on function postrider.dlq_count_nothing() from public;

create trigger dlq_entry_counted_in after insert on postrider.dlq_entry
referencing new table as added for each statement execute function postrider.dlq_count_entries();
comment on trigger dlq_entry_counted_in on postrider.dlq_entry is 'Counts what is opened.';
create trigger dlq_entry_counted after update on postrider.dlq_entry
referencing old table as removed new table as added for each statement execute function postrider.dlq_count_entries();
comment on trigger dlq_entry_counted on postrider.dlq_entry is 'Counts what is changed.';
create trigger dlq_entry_counted_out after delete on postrider.dlq_entry
referencing old table as removed for each statement execute function postrider.dlq_count_entries();
comment on trigger dlq_entry_counted_out on postrider.dlq_entry is 'Counts what is removed.';
create trigger dlq_entry_truncated after truncate on postrider.dlq_entry
for each statement execute function postrider.dlq_count_nothing();
comment on trigger dlq_entry_truncated on postrider.dlq_entry is 'Counts nothing.';

-- A redrive is an act, too, and changes no investigation.
create function postrider.dlq_group_redriven() returns trigger
language plpgsql security definer set search_path = pg_catalog, pg_temp
set enable_seqscan = off set enable_hashjoin = off set enable_mergejoin = off as $$
declare
    acted uuid[];
begin
    select array_agg(distinct e.dlq_group_uuid) into acted
    from added a
    cross join lateral (select e.dlq_group_uuid from postrider.dlq_entry e where e.dlq_entry_uuid = a.dlq_entry_uuid limit 1) e;
    -- In the order in which everybody locks groups.
    perform from postrider.dlq_group g where g.dlq_group_uuid = any (acted) and g.state = 'new' order by g.dlq_group_uuid for no key update;
    if found then
        update postrider.dlq_group g set state = 'ongoing', updated_at = now() where g.dlq_group_uuid = any (acted) and g.state = 'new';
    end if;
    return null;
end $$;
comment on function postrider.dlq_group_redriven() is 'A group of which something is redriven is no longer new.';
revoke all on function postrider.dlq_group_redriven() from public;
create trigger dlq_replay_begun after insert on postrider.dlq_replay
referencing new table as added for each statement execute function postrider.dlq_group_redriven();
comment on trigger dlq_replay_begun on postrider.dlq_replay is 'Somebody acted on the groups of what is redriven.';

-- Counted rather than counting: with a million investigations that took half a second.
create view postrider.v_dlq_dashboard as
with summary as materialized (
    select s.as_of, s.content from postrider.dashboard_summary s
    where s.name = 'dlq' and s.as_of > statement_timestamp() - interval '5 minutes' and s.as_of <= statement_timestamp()
), numbers as (
    select r.dlq_reason, r.requeued, r.avg_retries, s.as_of
    from summary s
    cross join lateral jsonb_to_recordset(s.content) as r(dlq_reason postrider.dlq_reason, requeued bigint, avg_retries double precision)
    union all
    select n.dlq_reason, n.requeued, n.avg_retries, statement_timestamp() from postrider.dlq_retry_numbers() n where not exists (select from summary)
), counted as (
    select c.dlq_reason, sum(c.entries)::bigint as total_entries,
           coalesce(sum(c.entries) filter (where c.resolution_status = 'pending'), 0)::bigint as pending,
           coalesce(sum(c.entries) filter (where c.resolution_status = 'permanently_failed'), 0)::bigint as permanent_failures,
           coalesce(sum(c.entries) filter (where c.resolution_status = 'manually_resolved'), 0)::bigint as manually_resolved,
           coalesce(sum(c.entries) filter (where c.resolution_status = 'cancelled'), 0)::bigint as cancelled
    from postrider.dlq_count c
    group by c.dlq_reason having sum(c.entries) > 0
)
select c.dlq_reason, c.total_entries, c.pending, coalesce(n.requeued, 0) as requeued, c.permanent_failures, n.avg_retries,
       (select e.dlq_timestamp from postrider.dlq_entry e where e.dlq_reason = c.dlq_reason order by e.dlq_reason, e.dlq_timestamp limit 1) as oldest_entry,
       (select e.dlq_timestamp from postrider.dlq_entry e where e.dlq_reason = c.dlq_reason order by e.dlq_reason desc, e.dlq_timestamp desc limit 1) as newest_entry,
       c.manually_resolved, c.cancelled,
       coalesce(n.as_of, (select s.as_of from summary s), statement_timestamp()) as retries_as_of
from counted c
left join numbers n on n.dlq_reason = c.dlq_reason
order by c.dlq_reason;
comment on view postrider.v_dlq_dashboard is
'Investigations by reason. requeued counts those whose subject was sent again: an event that was redriven, a task that was retried as a whole. avg_retries is the mean of the attempts of events and records and of the retries of tasks. These two were counted at retries_as_of, at most five minutes ago; the others are of now.';
drop index postrider.dlq_entry_reason;
create index dlq_entry_dashboard on postrider.dlq_entry (dlq_reason, dlq_timestamp);
comment on index postrider.dlq_entry_dashboard is 'The first and the last of each reason.';

create function postrider.dlq_index_messages() returns boolean
language plpgsql set search_path = pg_catalog, pg_temp as $$
declare
    space text;
begin
    create extension if not exists pg_trgm with schema postrider;
    select n.nspname into space from pg_extension x join pg_namespace n on n.oid = x.extnamespace where x.extname = 'pg_trgm';
    -- The eras of a row are three numbers: those of about a minute, an hour and three days in which it was opened.
    execute format($index$create index if not exists dlq_entry_message on postrider.dlq_entry using gin (error_message %I.gin_trgm_ops,
        (array[floor(extract(epoch from created_at at time zone 'UTC') / 64)::bigint * 4,
               floor(extract(epoch from created_at at time zone 'UTC') / 4096)::bigint * 4 + 1,
               floor(extract(epoch from created_at at time zone 'UTC') / 262144)::bigint * 4 + 2]))$index$, space);
    comment on index postrider.dlq_entry_message is 'Investigations by a part of their message, all or those opened in some eras.';
    return true;
exception when insufficient_privilege or undefined_file or feature_not_supported or invalid_parameter_value or undefined_object then
    raise notice 'postrider: no index of error messages (%); ask the administrator for the extension pg_trgm, then run select postrider.dlq_index_messages()', sqlerrm;
    return false;
end $$;
comment on function postrider.dlq_index_messages() is
'Makes the index by which investigations are found by a part of their message, with the extension pg_trgm. False where that is missing or forbidden; finding is slower then.';
revoke all on function postrider.dlq_index_messages() from public;
select postrider.dlq_index_messages();

create function postrider.outbox_look(p_id bigint, p_event_id uuid)
returns table(key bytea, payload bytea, headers jsonb)
language sql stable security definer set search_path = pg_catalog, pg_temp as $$
    select e.key, e.payload,
           case when jsonb_typeof(e.headers) = 'object'
                then (select coalesce(jsonb_agg(jsonb_build_array(h.key, h.value)), '[]') from jsonb_each(e.headers) h)
                else e.headers end
    from postrider.outbox_event e where e.id = p_id and e.event_id = p_event_id
$$;
comment on function postrider.outbox_look(bigint, uuid) is 'Key, payload and headers, as pairs, of an event, for the letter that refers to them.';
revoke all on function postrider.outbox_look(bigint, uuid) from public;
