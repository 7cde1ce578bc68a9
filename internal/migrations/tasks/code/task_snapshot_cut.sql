create or replace function postrider.task_snapshot_cut(p_snapshot jsonb, p_hard boolean, p_metadata jsonb default null) returns jsonb
language sql stable set search_path = pg_catalog, pg_temp as $$
    select case when p_hard then (p_snapshot - 'steps' - 'transitions')
                || jsonb_build_object('task', (p_snapshot->'task') - 'context' - 'metadata' - 'error_reason' - 'idempotency_key')
           else p_snapshot || jsonb_build_object('task', (p_snapshot->'task') - 'context')
                || case when p_snapshot ? 'steps' then jsonb_build_object(
               'steps', (select coalesce(jsonb_agg((s.step - 'inputs' - 'results')
                                          || jsonb_build_object('last_error', left(s.step->>'last_error', 1000)) order by s.n), '[]')
                           from jsonb_array_elements(p_snapshot->'steps') with ordinality s(step, n)),
               'transitions', (select coalesce(jsonb_agg(r.transition - 'metadata' order by r.n), '[]')
                                 from jsonb_array_elements(p_snapshot->'transitions') with ordinality r(transition, n))) else '{}' end
           end || jsonb_build_object('truncated', true, 'sizes', jsonb_build_object(
               'context', coalesce(octet_length((p_snapshot->'task'->'context')::text), 0),
               'metadata', coalesce(octet_length(nullif(p_metadata, 'null')::text), 0),
               'steps', (select count(*) from jsonb_array_elements(p_snapshot->'steps')),
               'inputs', (select coalesce(sum(octet_length((s->'inputs')::text)), 0) from jsonb_array_elements(p_snapshot->'steps') s),
               'results', (select coalesce(sum(octet_length((s->'results')::text)), 0) from jsonb_array_elements(p_snapshot->'steps') s),
               'transitions', (select count(*) from jsonb_array_elements(p_snapshot->'transitions'))))
$$;
comment on function postrider.task_snapshot_cut(jsonb, boolean, jsonb) is
'Internal. A snapshot made smaller: without context, inputs, results and the metadata of transitions, and, hard, without steps and transitions too. It says so: truncated, and the sizes (bytes, or how many) of what was there, that of the letter''s own metadata (p_metadata) among them.';
revoke all on function postrider.task_snapshot_cut(jsonb, boolean, jsonb) from public;
