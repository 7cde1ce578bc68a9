select e.removed, e.more, e.busy from postrider.outbox_merge_receipts(p_rows => $1::int) e
