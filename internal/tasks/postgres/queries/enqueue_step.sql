select postrider.enqueue_step($1::uuid)
