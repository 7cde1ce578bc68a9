-- What people did with the operation $1, the newest first. Each of its batches has a row, too, which the index leaves out.
select access_audit_id, at, actor, coalesce(key_id, ''), action, target_type, coalesce(target_id, ''), coalesce(request_id, ''), sources, details,
       session_user_name
from postrider.access_audit
where target_type = 'operation' and target_id = $1 and action like 'operation.%'
order by at desc, access_audit_id desc limit 100
