-- What this desk knows of source $1.
select s.source_uuid, s.answered, s.receipt, s.drawn, coalesce(s.stopped, ''), s.stopped_at, s.forgotten_at
from postrider.dlq_source s where s.source = $1
