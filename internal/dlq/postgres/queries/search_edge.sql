-- When the first investigation of the order was opened, and whether there is the index of messages.
select e.created_at, to_regclass('postrider.dlq_entry_message') is not null
from postrider.dlq_entry e
order by e.created_at desc/*way*/, e.dlq_entry_uuid desc/*way*/
limit 1
