create or replace function postrider.dlq_split_group(
    p_group uuid, p_entries uuid[], p_fingerprints text[], p_version integer, p_parts jsonb, p_title text, p_word text, p_actor text)
returns uuid language plpgsql volatile security definer set search_path = pg_catalog, pg_temp
set enable_seqscan = off set enable_hashjoin = off set enable_mergejoin = off as $$
declare
    moving uuid[];
    target uuid;
begin
    perform postrider.access_owe('{group.split}', 'group', array[p_group::text]);
    insert into postrider.dlq_group (fingerprint, fingerprint_version, parts, title, topic, error_code, word, first_seen_at, last_seen_at, opened_at)
    select p_fingerprints[1], p_version, p_parts, p_title, g.topic, g.error_code, p_word, g.last_seen_at, g.last_seen_at, '-infinity'
    from postrider.dlq_group g where g.dlq_group_uuid = p_group
    on conflict (fingerprint) do nothing;
    select g.dlq_group_uuid into target from postrider.dlq_group g where g.fingerprint = p_fingerprints[1];
    if target is null or target = p_group
       or (select g.source from postrider.dlq_group g where g.dlq_group_uuid = target)
          <> (select g.source from postrider.dlq_group g where g.dlq_group_uuid = p_group) then
        raise exception using errcode = '55000', message = format('postrider: group %s cannot be split like this', coalesce(p_group::text, 'null')),
            detail = 'there is no such group, the investigations cannot be told from its others, or the new group would be of another source';
    end if;
    -- Investigations are locked before groups, and both in the order in which everybody locks them.
    with locked as materialized (
        select e.dlq_entry_uuid from postrider.dlq_entry e
        where e.dlq_entry_uuid = any (p_entries) and e.dlq_group_uuid = p_group order by e.dlq_entry_uuid for no key update
    )
    select array_agg(l.dlq_entry_uuid) into moving from locked l;
    perform from postrider.dlq_group g where g.dlq_group_uuid in (p_group, target) order by g.dlq_group_uuid for no key update;
    delete from postrider.dlq_fingerprint f where f.fingerprint = p_fingerprints[1];
    insert into postrider.dlq_fingerprint as f (fingerprint, dlq_group_uuid, actor)
    select w.fingerprint, target, p_actor from unnest(p_fingerprints[2:]) w(fingerprint)
    on conflict (fingerprint) do update set dlq_group_uuid = excluded.dlq_group_uuid, actor = excluded.actor, created_at = now();
    -- Of a mixed group, these may have another topic or code than it.
    update postrider.dlq_group g set mixed = true
    where g.dlq_group_uuid = target
      and exists (select from postrider.dlq_entry e
                  where e.dlq_entry_uuid = any (moving) and (e.topic, e.error_code) is distinct from (g.topic, g.error_code));
    if postrider.dlq_move_entries(moving, target) < cardinality(p_entries) then
        raise exception using errcode = '55000', message = format('postrider: not all of the investigations are in group %s', p_group);
    end if;
    return target;
end $$;
comment on function postrider.dlq_split_group(uuid, uuid[], text[], integer, jsonb, text, text, text) is
'Puts investigations of a group into the group of the first of the fingerprints, which is made if there is none, and returns that. Investigations with one of the fingerprints are opened there from then on.';
revoke all on function postrider.dlq_split_group(uuid, uuid[], text[], integer, jsonb, text, text, text) from public;
