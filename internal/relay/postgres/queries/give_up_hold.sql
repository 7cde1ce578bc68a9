select g.scope, g.topic, g.cause, g.events from postrider.outbox_give_up($1) g
