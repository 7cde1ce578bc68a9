insert into postrider.schema_migration (room, version, name, checksum) values ($1, $2, $3, $4);
