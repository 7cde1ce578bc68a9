delete from postrider.schema_migration where version = $1;
