-- The audit log, which is only added to, and shortened by retention. When and by which login the defaults say. Each change
-- that an operator makes is written there, or is not committed (access_owe).
grant insert (actor, key_id, action, target_type, target_id, request_id, sources, details)
    on postrider.access_audit to postrider_relay, postrider_operator;
grant execute on function postrider.access_purge_audit(interval, integer) to postrider_relay;

