-- Looks at the $2 blocks of the table from block $1 on: how many keys were used first $3 microseconds ago or
-- more, and how many blocks the table has. By blocks, because an index by age would cost every writer.
select count(*) filter (where k.created_at <= now() - $3::bigint * interval '1 microsecond'),
       pg_relation_size('postrider.outbox_idempotency_key') / current_setting('block_size')::bigint
from postrider.outbox_idempotency_key k
where k.ctid >= format('(%s,0)', $1::bigint)::tid and k.ctid < format('(%s,0)', $1::bigint + $2::bigint)::tid
