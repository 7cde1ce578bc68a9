create or replace function postrider.outbox_name_source(p_name text, p_desk text default null) returns postrider.outbox_source
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp as $$
declare
    s postrider.outbox_source;
begin
    if p_name is null then
        raise exception using errcode = '22004', message = 'postrider: the name of the source is null';
    end if;
    select * into strict s from postrider.outbox_source;
    -- The condition is asked again when another session has the row: the first name stays.
    if s.name is null or s.desk is null and p_desk is not null then
        update postrider.outbox_source o set place = case when o.name is null then postrider.outbox_place() else o.place end,
            name = coalesce(o.name, p_name), desk = coalesce(o.desk, p_desk)
        where coalesce(o.name = p_name, true) and coalesce(o.desk = p_desk, true);
        select * into strict s from postrider.outbox_source;
    end if;
    if s.name <> p_name then
        raise exception using errcode = '55000', message = format('postrider: this outbox is the source %s and not %s', s.name, p_name),
            detail = format('Its identity is %s.', s.source_uuid),
            hint = 'A source keeps its name. A copy of a database becomes a source of its own by outbox_new_identity.';
    elsif s.desk <> p_desk then
        raise exception using errcode = '55000', message = format('postrider: the source %s belongs to the desk %s and not to %s', s.name, s.desk, p_desk),
            hint = 'A source obeys one desk.';
    end if;
    return s;
end $$;
comment on function postrider.outbox_name_source(text, text) is
'Says which source this outbox is and, if the second argument is not null, which desk it obeys, and returns the row of outbox_source. Each is written once. Another name or desk than the one that is there is refused (55000).';
revoke all on function postrider.outbox_name_source(text, text) from public;
