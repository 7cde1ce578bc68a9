select version, name, checksum, applied_at
from postrider.schema_migration
order by version;
