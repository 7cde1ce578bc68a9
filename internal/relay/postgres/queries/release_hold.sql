-- Ends a hold, or has it probed now. Returns the hold; no row when there is none.
select scope, topic, key, cause, draining from postrider.outbox_release($1)
