-- Roles with the least rights that each part of Postrider needs, in a database with the parts of the
-- schema that are named below. Run it as the owner of the schema postrider, with the right to create
-- roles, after every `postrider migrate up`; running it again changes nothing. The roles cannot log
-- in. Grant them to roles that can:
--
--     grant postrider_writer to orders_service;
--
-- Roles belong to the whole server, their rights to this database alone. A login that should write
-- in one database only is kept out of the others by CONNECT.

begin;

-- Two databases of one server may run this at the same time.
do $$
declare
    wanted record;
begin
    for wanted in select * from (values
        ('postrider_writer', 'Postrider: services that write events, register tasks and do them, and read no table'),
        ('postrider_relay', 'Postrider: postrider serve, whatever its roles'),
        ('postrider_operator', 'Postrider: people who look at everything, treat what failed and act on tasks')) w(role, purpose)
    loop
        if not exists (select from pg_catalog.pg_roles where rolname = wanted.role) then
            begin
                execute format('create role %I nologin', wanted.role);
                execute format('comment on role %I is %L', wanted.role, wanted.purpose);
            exception when duplicate_object or unique_violation then
                null; -- another session made it just now
            end;
        end if;
    end loop;
end
$$;

-- Rights are given for what the database has, and taken away first.
do $$
declare
    there text := (select string_agg(p.part, ',' order by array_position('{outbox,tasks,desk}', p.part), p.part) from postrider.schema_part p);
begin
    if there is distinct from '@parts@' then
        raise exception 'postrider: this script is for a database with @parts@, and this one was installed with %', coalesce(there, 'nothing')
            using hint = format('Print the script for it: postrider migrate roles --only %s', coalesce(there, '@parts@'));
    end if;
end
$$;

-- Rights of earlier versions go first. No other transaction sees them gone.
revoke all on all tables in schema postrider from postrider_writer, postrider_relay, postrider_operator;
revoke all on all sequences in schema postrider from postrider_writer, postrider_relay, postrider_operator;
revoke all on all functions in schema postrider from postrider_writer, postrider_relay, postrider_operator;
revoke all on schema postrider from postrider_writer, postrider_relay, postrider_operator;
grant usage on schema postrider to postrider_writer, postrider_relay, postrider_operator;
-- Operators read everything, and what they change they change by functions with the owner's rights, which know what may
-- be changed when.
grant select on all tables in schema postrider to postrider_operator;
-- serve looks at the version when it starts.
grant select on postrider.schema_migration, postrider.schema_code, postrider.schema_part to postrider_relay;

