-- Events that a leader before had in hand are free: the leader that begins a term reads them again.
update postrider.outbox_exception set sending_since = null where sending_since is not null
