-- A machine as templates write it.
select jsonb_build_object(
    'states', (select jsonb_agg(jsonb_build_object('name', s.state, 'kind', s.kind) order by s.kind <> 'initial', s.state)
               from postrider.tasker_machine_states s where s.state_machine_id = m.state_machine_id),
    'transitions', (select coalesce(jsonb_agg(jsonb_build_object('from', t.from_state, 'to', t.to_states) order by t.from_state), '[]')
                    from (select t.from_state, jsonb_agg(t.to_state order by t.to_state) as to_states
                          from postrider.tasker_machine_transitions t where t.state_machine_id = m.state_machine_id group by t.from_state) t),
    'roles', jsonb_strip_nulls(jsonb_build_object('complete', m.complete_state, 'failed', m.failed_state, 'cancelled', m.cancelled_state,
                                                  'dead_letter', m.dead_letter_state, 'archived', m.archived_state)),
    'retryable', to_jsonb(m.retryable_states))::text
from postrider.tasker_state_machines m
where m.name = $1
