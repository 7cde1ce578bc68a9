-- What was done to the investigation $1: to it alone, to it among others, and with the operations $2, the newest first. A
-- row about many investigations shows how many they were, and not the others; one that is also about sources beside $3, where these
-- are not null, shows neither. The rows are gathered before they are
-- sorted: a search by time until enough are found would read the whole log for an investigation that is not in it.
with found as materialized (
    select access_audit_id from postrider.access_audit where target_type = 'entry' and target_id = $1
    union
    select access_audit_id from postrider.access_audit where details -> 'entries' is not null and details -> 'entries' @> jsonb_build_array($1::text)
    union
    select access_audit_id from postrider.access_audit where target_type = 'operation' and target_id = any ($2::text[]) and action like 'operation.%'
)
select a.access_audit_id, a.at, a.actor, coalesce(a.key_id, ''), a.action, a.target_type, coalesce(a.target_id, ''), coalesce(a.request_id, ''), case when $3::text[] is null or a.sources <@ $3 then a.sources else '{}' end,
       case when not ($3::text[] is null or a.sources <@ $3) then jsonb_build_object('entries', jsonb_build_array($1::text))
            when jsonb_typeof(a.details -> 'entries') = 'array' then (a.details - 'entries') || jsonb_build_object('entries', jsonb_build_array($1::text), 'entries_in_all', jsonb_array_length(a.details -> 'entries'))
            else a.details end,
       a.session_user_name
from found f join postrider.access_audit a using (access_audit_id)
order by a.at desc, a.access_audit_id desc limit 100
