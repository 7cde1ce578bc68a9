drop table postrider.dlq_letter;
drop table postrider.dlq_entry;
drop function postrider.uuid_generate_v7();
drop type postrider.dlq_reason;
drop type postrider.dlq_resolution_status;
