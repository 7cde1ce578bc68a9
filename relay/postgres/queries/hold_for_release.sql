-- The hold that somebody wants to end or to be tried now. A halted key, or a storm, lets go of all that
-- waits; the others let one event through, to see whether the cause is gone.
update postrider.outbox_hold
set next_probe_at = clock_timestamp(), draining = draining or cause in ('halted', 'redrive', 'storm')
where hold_id = $1
returning scope, topic, key, cause, draining
