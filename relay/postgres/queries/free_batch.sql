-- The batch is in nobody's work any more; it stays as a mark of what was in flight when workers died.
update postrider.outbox_batch set worker = '' where batch_id = $1
