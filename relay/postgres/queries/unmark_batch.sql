delete from postrider.outbox_batch where batch_id = $1
