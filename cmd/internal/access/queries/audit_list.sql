-- The newest first, by time, in which each of these indexes is: so each filter is found without a walk over the rest. $7
-- is the last row of the page before. An actor of the form cli:LOGIN stands for all who used that login: cli:LOGIN
-- (PERSON), too. Unless $9 is true, the rows of the batches of operations are left out, and the row of an operation's
-- start counts them, up to 1,001. $10 are the sources to which the rows are limited; null is no limit.
select access_audit_id, at, actor, coalesce(key_id, ''), action, target_type, coalesce(target_id, ''), coalesce(request_id, ''), sources, details,
       session_user_name,
       case when not $9::boolean and action = 'operation.start' then (
           select count(*) from (select from postrider.access_audit b
               where b.target_type = 'operation' and b.target_id = a.target_id and b.action not like 'operation.%' limit 1001) b) else 0 end
from postrider.access_audit a
where ($1::text = '' or case when $1::text like 'cli:%' and strpos($1::text, ' (') = 0
                             then actor like 'cli:%' and split_part(actor, ' (', 1) = $1::text
                             else actor = $1::text end)
  and ($2::text = '' or action = $2) and ($3::text = '' or target_type = $3) and ($4::text = '' or target_id = $4)
  and ($5::timestamptz is null or at >= $5) and ($6::timestamptz is null or at <= $6)
  and ($7::bigint = 0 or (at, access_audit_id) < ((select b.at from postrider.access_audit b where b.access_audit_id <= $7
                                                   order by b.access_audit_id desc limit 1), $7::bigint))
  and ($10::text[] is null or a.sources <@ $10)
  and ($9::boolean or target_type <> 'operation' or action like 'operation.%')
order by at desc, access_audit_id desc limit $8::bigint
