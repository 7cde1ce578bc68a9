delete from postrider.outbox_hold where scope = 'dead_letter' and topic = any ($1::text[])
