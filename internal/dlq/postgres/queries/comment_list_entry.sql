-- The comments of the investigation $1 behind comment $2, the oldest first. The thread is bounded from both sides, and not by
-- an equality: its index alone has the order of both columns then, and a page is read along it.
select c.dlq_comment_id, c.author, c.author_id, coalesce(c.text, ''), c.created_at, c.deleted_at
from postrider.dlq_comment c
where (c.dlq_entry_uuid, c.dlq_comment_id) > ($1::uuid, $2::bigint) and c.dlq_entry_uuid <= $1::uuid
order by c.dlq_entry_uuid, c.dlq_comment_id limit $3::bigint
