-- The topics that Postrider itself writes: no redrive may choose one of them as its target.
select o.topic from postrider.outbox_own_topic o
