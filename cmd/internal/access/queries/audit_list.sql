-- The newest first, by time, in which each of these indexes is: so each filter is found without a walk over the rest. $7
-- is the last row of the page before.
select access_audit_id, at, actor, coalesce(key_id, ''), action, target_type, coalesce(target_id, ''), coalesce(request_id, ''), details,
       session_user_name
from postrider.access_audit
where ($1::text = '' or actor = $1) and ($2::text = '' or action = $2) and ($3::text = '' or target_type = $3) and ($4::text = '' or target_id = $4)
  and ($5::timestamptz is null or at >= $5) and ($6::timestamptz is null or at <= $6)
  and ($7::bigint = 0 or (at, access_audit_id) < ((select b.at from postrider.access_audit b where b.access_audit_id <= $7
                                                   order by b.access_audit_id desc limit 1), $7::bigint))
order by at desc, access_audit_id desc limit $8::bigint
