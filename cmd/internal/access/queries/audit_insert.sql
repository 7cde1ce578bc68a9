insert into postrider.access_audit (actor, key_id, action, target_type, target_id, request_id, details, sources)
values ($1, nullif($2, ''), $3, $4, nullif($5, ''), nullif($6, ''), $7, $8)
