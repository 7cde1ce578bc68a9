create or replace function postrider.outbox_check_headers(headers jsonb) returns void
language plpgsql immutable set search_path = pg_catalog, pg_temp as $$
declare
    pairs jsonb;
    pair  jsonb;
    bad   text;
begin
    if jsonb_typeof(headers) = 'object' then
        select jsonb_agg(jsonb_build_array(h.key, h.value)) into pairs from jsonb_each(headers) h;
    elsif jsonb_typeof(headers) = 'array' then
        pairs := headers;
    else
        bad := 'must be an object or an array of [name, value] pairs, not a ' || coalesce(jsonb_typeof(headers), 'null');
    end if;
    for pair in select jsonb_array_elements(pairs) loop
        exit when bad is not null;
        if jsonb_typeof(pair) <> 'array' or jsonb_array_length(pair) <> 2 or jsonb_typeof(pair->0) <> 'string' then
            bad := format('has the element %s where a pair [name, value] is expected', left(pair::text, 100));
        elsif pair->>0 = '' then
            bad := 'has an empty name';
        elsif lower(pair->>0) like 'postrider-%' then
            bad := format('has the name %s, but names beginning with postrider- are the relay''s own', quote_literal(pair->>0));
        elsif pair->>0 ~ '[\x01-\x1f\x7f]' then
            bad := format('has the name %s with a control character', pair->0);
        elsif jsonb_typeof(pair->1) = 'object' then
            begin
                if (select count(*) from jsonb_object_keys(pair->1)) <> 1 or jsonb_typeof(pair->1->'base64') is distinct from 'string' then
                    bad := format('value of %s must be a string, null, or {"base64": "…"}', quote_literal(pair->>0));
                else
                    perform decode(pair->1->>'base64', 'base64');
                end if;
            exception when invalid_parameter_value then
                bad := format('value of %s is not valid base64', quote_literal(pair->>0));
            end;
        elsif jsonb_typeof(pair->1) not in ('string', 'null') then
            bad := format('value of %s is a %s; it must be a string, null, or {"base64": "…"}', quote_literal(pair->>0), jsonb_typeof(pair->1));
        end if;
    end loop;
    if bad is not null then
        raise exception using errcode = '22023', message = 'postrider: headers ' || bad;
    end if;
end $$;
comment on function postrider.outbox_check_headers(jsonb) is
'Raises an error that names the fault when headers are not what outbox_event.headers describes.';
