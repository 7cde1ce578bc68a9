-- Lets the keys go that these events halt.
select postrider.outbox_release_keys($1)
