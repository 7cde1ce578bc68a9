select moved, refused, waiting from postrider.task_events_catch_up($1::integer)
