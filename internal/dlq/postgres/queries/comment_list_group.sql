-- The comments of the group $1 behind comment $2, the oldest first; comment_list_entry says why it is bounded like this.
select c.dlq_comment_id, c.author, c.author_id, coalesce(c.text, ''), c.created_at, c.deleted_at
from postrider.dlq_comment c
where (c.dlq_group_uuid, c.dlq_comment_id) > ($1::uuid, $2::bigint) and c.dlq_group_uuid <= $1::uuid
order by c.dlq_group_uuid, c.dlq_comment_id limit $3::bigint
