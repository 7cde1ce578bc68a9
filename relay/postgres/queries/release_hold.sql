-- What the hold was that somebody wants to end or to be tried now; no row when there is none.
select scope, topic, key, cause, draining from postrider.outbox_release($1)
