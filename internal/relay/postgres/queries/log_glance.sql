-- What a quiet relay has to know, without any of it: whether there are events behind the position $1; whether people asked to skip
-- something; whether events wait for their dead letters; whether there are holds or scheduled events.
-- An id that was drawn below the position counts as an event: the read says that the log was rewound.
-- Each part costs as much as the next even where there is nothing, so there are few.
select exists (select from postrider.outbox_event e where e.id > $1::bigint)
       or case when pg_catalog.has_sequence_privilege('postrider.outbox_event_id_seq', 'usage, select')
               then coalesce(pg_catalog.pg_sequence_last_value('postrider.outbox_event_id_seq'), 0) < $1::bigint else false end,
       exists (select from postrider.outbox_skip_request s),
       exists (select from postrider.outbox_exception x where x.state = 'exhausted'),
       exists (select from postrider.outbox_hold h) or exists (select from postrider.outbox_exception x where x.state = 'scheduled')
