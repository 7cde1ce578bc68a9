create or replace function postrider.dlq_merge_groups(p_group uuid, p_into uuid, p_limit integer, p_actor text) returns bigint
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp
set enable_seqscan = off set enable_hashjoin = off set enable_mergejoin = off as $$
declare
    nowhere constant uuid := '00000000-0000-0000-0000-000000000000';
    moving  uuid[];
    merged  record;
    target  record;
begin
    if p_group = p_into or nowhere in (p_group, p_into) then
        raise exception using errcode = '22023', message = 'postrider: two different groups must be given, and not the one for what is in no group';
    end if;
    -- Investigations are locked before groups, and both in the order in which everybody locks them.
    with meant as (
        select e.dlq_entry_uuid from postrider.dlq_entry e where e.dlq_group_uuid = p_group limit p_limit
    ), locked as materialized (
        select e.dlq_entry_uuid from postrider.dlq_entry e join meant m using (dlq_entry_uuid)
        where e.dlq_group_uuid = p_group order by e.dlq_entry_uuid for no key update of e
    )
    select array_agg(l.dlq_entry_uuid) into moving from locked l;
    perform from postrider.dlq_group g where g.dlq_group_uuid in (p_group, p_into) order by g.dlq_group_uuid for no key update;
    select g.* into merged from postrider.dlq_group g where g.dlq_group_uuid = p_group;
    select g.* into target from postrider.dlq_group g where g.dlq_group_uuid = p_into;
    if merged.dlq_group_uuid is null or target.dlq_group_uuid is null then
        raise exception using errcode = 'P0002', message = format('postrider: there is no group %s',
            coalesce(case when merged.dlq_group_uuid is null then p_group else p_into end::text, 'null'));
    end if;
    if exists (select from postrider.dlq_fingerprint f where f.fingerprint = target.fingerprint and f.dlq_group_uuid <> p_group) then
        raise exception using errcode = '55000', message = format('postrider: nothing can be merged into group %s', p_into),
            detail = 'it was merged into another group itself, which can be named instead';
    end if;
    if merged.source <> target.source then
        raise exception using errcode = '55000', message = format('postrider: nothing can be merged into group %s', p_into),
            detail = format('it is of the source %s, and the merged one of the source %s; no group has investigations of two sources',
                target.source, merged.source);
    end if;
    perform postrider.access_owe('{group.merge}', 'group', array[p_group::text]);
    -- What was merged into the one goes along. If that is the other, the other is a group of its own again.
    update postrider.dlq_fingerprint f set dlq_group_uuid = p_into where f.dlq_group_uuid = p_group;
    delete from postrider.dlq_fingerprint f where f.fingerprint = target.fingerprint;
    insert into postrider.dlq_fingerprint as f (fingerprint, dlq_group_uuid, actor) values (merged.fingerprint, p_into, p_actor)
    on conflict (fingerprint) do update set dlq_group_uuid = excluded.dlq_group_uuid, actor = excluded.actor, created_at = now();
    update postrider.dlq_group g
    set mixed = g.mixed or merged.mixed or (g.topic, g.error_code) is distinct from (merged.topic, merged.error_code),
        first_seen_at = least(g.first_seen_at, merged.first_seen_at), updated_at = now()
    where g.dlq_group_uuid = p_into;
    return postrider.dlq_move_entries(moving, p_into);
end $$;
comment on function postrider.dlq_merge_groups(uuid, uuid, integer, text) is
'Merges a group into another: up to p_limit of its investigations are put there, and investigations that would be opened in it are opened there. Returns how many were put there. If some are left, it can be called again.';
revoke all on function postrider.dlq_merge_groups(uuid, uuid, integer, text) from public;
