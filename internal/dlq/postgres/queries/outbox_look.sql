select l.key, l.payload, l.headers from postrider.outbox_look($1, $2) l
