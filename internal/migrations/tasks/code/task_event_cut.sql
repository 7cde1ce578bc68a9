create or replace function postrider.task_event_cut(p_data jsonb, p_limit integer) returns jsonb
language sql immutable set search_path = pg_catalog, pg_temp as $$
    -- A part goes whole or stays whole: half of a JSON value is none.
    select p_data || jsonb_strip_nulls(jsonb_build_object('actor', left(p_data->>'actor', 256), 'reason', left(p_data->>'reason', p_limit / 32)))
           || (select coalesce(jsonb_object_agg(g.part, g.instead), '{}')
                 from (values ('metadata', 'null'::jsonb), ('context', 'null'), ('steps', '[]')) g(part, instead)
                where octet_length((p_data->g.part)::text) > p_limit / 4)
           || jsonb_build_object('truncated', true, 'sizes',
                  (select coalesce(jsonb_object_agg(g.part, octet_length((p_data->g.part)::text)), '{}')
                     from unnest(array['reason', 'metadata', 'context', 'steps']) g(part) where p_data ? g.part))
$$;
comment on function postrider.task_event_cut(jsonb, integer) is
'Internal. An event about a task that is larger than p_limit bytes, made smaller: metadata and context are null and steps is empty where they are larger than a quarter of that, actor and reason are shortened. It says so: truncated, and the sizes in bytes of what was there. The task itself has all of it: task_snapshot.';
revoke all on function postrider.task_event_cut(jsonb, integer) from public;
