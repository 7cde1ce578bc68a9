-- What a leader before had in hand is free: it is read again, by the one that begins a term.
update postrider.outbox_exception set sending_since = null where sending_since is not null
