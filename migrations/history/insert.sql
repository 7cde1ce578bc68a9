insert into postrider.schema_migration (version, name, checksum) values ($1, $2, $3);
