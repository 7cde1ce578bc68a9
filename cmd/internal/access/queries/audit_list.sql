select access_audit_id, at, actor, coalesce(key_id, ''), action, target_type, coalesce(target_id, ''), coalesce(request_id, ''), details,
       session_user_name
from postrider.access_audit
where ($1 = '' or actor = $1) and ($2 = '' or action = $2) and ($3 = '' or target_type = $3) and ($4 = '' or target_id = $4)
  and ($5::timestamptz is null or at >= $5) and ($6::timestamptz is null or at <= $6)
  and ($7::bigint = 0 or access_audit_id < $7)
order by access_audit_id desc limit $8
