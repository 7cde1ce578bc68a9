select postrider.outbox_redrive($1)
