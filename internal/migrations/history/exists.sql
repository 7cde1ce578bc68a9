-- Whether there is a history, and whether it is one by rooms and parts: that of versions before the first release was not.
select to_regclass('postrider.schema_migration') is not null,
       to_regclass('postrider.schema_part') is not null
       and exists (select from pg_attribute where attrelid = to_regclass('postrider.schema_migration') and attname = 'room' and not attisdropped);
