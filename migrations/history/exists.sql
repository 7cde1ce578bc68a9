select to_regclass('postrider.schema_migration') is not null;
