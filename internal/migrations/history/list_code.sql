select room, checksum, files, applied_at, replaced_at
from postrider.schema_code
order by room, applied_at, checksum;
