drop function postrider.outbox_redrive(bigint);
drop function postrider.outbox_skip(bigint, text);
drop function postrider.task_events_dead_lettered(bigint[]);
drop function postrider.outbox_release_keys(bigint[]);
drop function postrider.outbox_release(bigint);
drop function postrider.access_owe(boolean);
drop function postrider.outbox_operate(bigint);
