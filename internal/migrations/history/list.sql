select room, version, name, checksum, applied_at
from postrider.schema_migration
order by room, version;
