-- Triggers and constraints of the log that are not the migrations', and foreign keys that refer to it.
select 'trigger ' || quote_ident(t.tgname) from pg_catalog.pg_trigger t
where t.tgrelid = 'postrider.outbox_event'::regclass and not t.tgisinternal
union all
select 'constraint ' || quote_ident(c.conname) from pg_catalog.pg_constraint c
where c.conrelid = 'postrider.outbox_event'::regclass and c.contype not in ('p', 'n')
union all
select 'foreign key ' || quote_ident(c.conname) || ' of ' || c.conrelid::regclass from pg_catalog.pg_constraint c
where c.confrelid = 'postrider.outbox_event'::regclass and c.contype = 'f'
order by 1
