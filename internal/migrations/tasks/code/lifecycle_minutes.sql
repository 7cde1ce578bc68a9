-- Without settings of its own, so that it is inlined; so every name is written with its schema.
create or replace function postrider.lifecycle_minutes(p_lifecycle jsonb, p_key text) returns integer
language sql immutable parallel safe as $$
    select case when pg_catalog.jsonb_typeof(p_lifecycle operator(pg_catalog.->) p_key) operator(pg_catalog.=) 'number'
                then least(greatest((p_lifecycle operator(pg_catalog.->>) p_key)::pg_catalog.numeric, 0), 2147483647)::pg_catalog.int4 end
$$;
comment on function postrider.lifecycle_minutes(jsonb, text) is
'Internal. A threshold of a lifecycle, in minutes; null where it says nothing, or nothing that is a number.';
revoke all on function postrider.lifecycle_minutes(jsonb, text) from public;
