create or replace function postrider.access_settle() returns trigger
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp
-- No plan may hang on statistics, nor on what the transaction set: thousands of ids are compared with thousands.
set enable_seqscan = off set enable_hashjoin = on set enable_mergejoin = off set enable_nestloop = off set jit = off as $$
declare
    v_login   constant text := 'cli:' || session_user;
    v_unpaid  record;
    v_things  text;
    v_written text;
begin
    -- The first due of a transaction asks for all; the others are gone when it is their turn.
    with due as materialized (
        delete from postrider.access_due d where d.transaction_id = new.transaction_id returning d.actions, d.target_type, d.target_ids
    ), written as materialized (
        -- Of this transaction's time: what a restored log has may bear numbers that are yet to come. A clock is put back now and then.
        select a.action, a.target_type, coalesce(a.target_id, '') as target_id, a.details from postrider.access_audit a
        where a.at > now() - interval '1 minute' and a.transaction_id = new.transaction_id
          and (a.actor = v_login or starts_with(a.actor, v_login || ' (') and a.actor like '%)')
    ), named as materialized (
        select w.action, w.target_type, w.target_id as id from written w
        union
        select w.action, l.target_type, i.id
        from written w
        cross join (values ('entry', 'entries'), ('event', 'events')) l(target_type, list)
        cross join lateral jsonb_array_elements_text(case jsonb_typeof(w.details -> l.list) when 'array' then w.details -> l.list else '[]' end) i(id)
    ), owed as materialized (
        select distinct d.actions, d.target_type, t.id from due d cross join lateral unnest(d.target_ids) t(id)
    )
    select o.actions, o.target_type, array_agg(o.id order by o.id) as ids into v_unpaid
    from owed o
    where not exists (select from named n where n.id = o.id and n.target_type = o.target_type and n.action = any (o.actions))
    group by o.actions, o.target_type order by o.actions limit 1;
    if not found then
        return null;
    end if;

    select string_agg(format('%s of %s by %s', w.action, concat_ws(' ', w.target_type, w.target_id), w.actor), ', ') into v_written
    from (select a.action, a.target_type, a.target_id, a.actor from postrider.access_audit a
          where a.at > now() - interval '1 minute' and a.transaction_id = new.transaction_id order by a.access_audit_id limit 5) w;
    v_things := v_unpaid.target_type || coalesce(' ' || nullif(v_unpaid.ids[1], ''), '');
    raise exception using errcode = '42501',
        message = format('postrider: %s of %s%s is not in the audit log', array_to_string(v_unpaid.actions, ' or '), v_things,
                         case when cardinality(v_unpaid.ids) > 1 then format(' and of %s more', cardinality(v_unpaid.ids) - 1) end),
        detail = format('This transaction wrote there: %s. A row counts whose actor is %s, or that with a name in parentheses behind it.',
                        coalesce(v_written, 'nothing'), v_login),
        hint = format('The commands of postrider write the row. A program that writes SQL runs in the same transaction: '
                      || case when cardinality(v_unpaid.ids) > 1 and v_unpaid.target_type in ('entry', 'event')
                              then 'insert into postrider.access_audit (action, target_type, details) values (%1$L, %2$L, ''{"%4$s": […]}''), with all ids in the list'
                              when v_unpaid.ids[1] = '' then 'insert into postrider.access_audit (action, target_type) values (%1$L, %2$L)'
                              else 'insert into postrider.access_audit (action, target_type, target_id) values (%1$L, %2$L, %3$L)'
                                   || case when cardinality(v_unpaid.ids) > 1 then ', and one more row for each of the others' else '' end end,
                      v_unpaid.actions[1], v_unpaid.target_type, v_unpaid.ids[1], case v_unpaid.target_type when 'entry' then 'entries' else 'events' end);
end $$;
comment on function postrider.access_settle() is
'Refuses to commit a transaction that owes the audit log a row (access_due). A row pays if it is of this transaction and names its login as the actor, has one of the actions that are owed, and names the things: as its target, or in the list "entries" (investigations) or "events" of its details. Several rows may pay together.';
revoke all on function postrider.access_settle() from public;

drop trigger if exists access_settle on postrider.access_due;
create constraint trigger access_settle after insert on postrider.access_due deferrable initially deferred
for each row execute function postrider.access_settle();
comment on trigger access_settle on postrider.access_due is 'Asks when the transaction is committed.';
