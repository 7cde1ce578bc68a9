drop function postrider.task_check_input(jsonb, jsonb);
drop function postrider.task_schema_path(text, text);
drop function postrider.task_schema_error(jsonb, jsonb, text);
