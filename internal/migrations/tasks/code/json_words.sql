create or replace function postrider.json_words(p_value jsonb) returns text
language sql immutable set search_path = pg_catalog, pg_temp as $$
    select case jsonb_typeof(p_value)
           when 'boolean' then p_value::text
           when 'number' then 'the number ' || left(p_value::text, 160)
           when 'string' then 'the text ' || to_json(left(p_value #>> '{}', 160))::text
           when 'array' then 'a list'
           when 'object' then 'a mapping'
           else 'nothing' end
$$;
comment on function postrider.json_words(jsonb) is 'Internal. What a value is, for a message: the number 5, the text "a", a list.';
revoke all on function postrider.json_words(jsonb) from public;
