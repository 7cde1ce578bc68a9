insert into postrider.schema_part (part) select unnest(string_to_array(current_setting('postrider.parts'), ','));
