select postrider.task_events_dead_lettered((
    select jsonb_agg(jsonb_build_object('event_id', x.event_id, 'episode', x.episode, 'task_uuid', x.task_uuid, 'topic', x.topic, 'attempts', x.attempts,
               'error_class', x.last_error_class, 'error_code', x.last_error_code, 'error_message', x.last_error, 'created_at', x.created_at))
    from unnest($1::bigint[]) as d(id) join postrider.outbox_exception x on x.id = any (array[d.id])
    where x.task_uuid is not null and x.state = 'exhausted'))
