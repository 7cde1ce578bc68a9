drop function postrider.task_check_input(jsonb, jsonb);
drop function postrider.task_schema_path(text, text);
drop function postrider.task_schema_error(jsonb, jsonb, text);
drop function postrider.task_check_steps(jsonb);
drop function postrider.step_problem(jsonb, integer, jsonb);
drop function postrider.json_words(jsonb);
drop function postrider.step_dependencies(jsonb);
drop function postrider.task_cycle(jsonb);
