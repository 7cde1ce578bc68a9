-- How the tables of other outboxes are forwarded. The trigger is found by its name and its function; the publication is the one
-- that the table left.
select f.source_table, f.mode, extract(epoch from clock_timestamp() - f.changed_at)::float8,
    (select count(*) from (select from postrider.outbox_held_event h where h.source_table = f.source_table limit 100000) held),
    to_regclass(f.source_table) is not null,
    exists (select from pg_catalog.pg_trigger t join pg_catalog.pg_proc p on p.oid = t.tgfoid
            where t.tgrelid = to_regclass(f.source_table) and t.tgname = 'postrider_forward' and p.proname = f.function_name || case when f.kept_as is null then '' else '_v' end and t.tgenabled in ('O', 'A')),
    coalesce(f.publication, ''),
    exists (select from pg_catalog.pg_publication_tables p where p.pubname = f.publication and format('%I.%I', p.schemaname, p.tablename) = f.source_table)
from postrider.outbox_forward f
order by f.source_table
