-- What a quiet relay has to know, without any of it: whether there are events behind the position $1; whether holds are due,
-- scheduled events are, or people asked something; whether events wait for their dead letters; whether anything is kept back.
-- An id that was drawn below the position counts as an event: the read says that the log was rewound.
-- A hold that is due in more than $2 microseconds, or a failed event in more than $3, is due: the clock was put back.
select exists (select from postrider.outbox_event e where e.id > $1::bigint)
       or case when pg_catalog.has_sequence_privilege(pg_catalog.to_regclass('postrider.outbox_event_id_seq'), 'usage, select')
               then coalesce(pg_catalog.pg_sequence_last_value(pg_catalog.to_regclass('postrider.outbox_event_id_seq')), 0) < $1::bigint else false end,
       exists (select from postrider.outbox_skip_request s)
       or exists (select from postrider.outbox_hold h where h.asked is not null and h.scope <> 'dead_letter')
       or exists (select from postrider.outbox_hold h where h.draining and h.scope <> 'dead_letter')
       or exists (select from postrider.outbox_hold h where h.next_probe_at <= (select clock_timestamp()) and h.scope <> 'dead_letter')
       or exists (select from postrider.outbox_hold h where h.next_probe_at > (select clock_timestamp()) + $2::bigint * interval '1 microsecond'
                  and h.next_probe_at < 'infinity' and h.scope <> 'dead_letter')
       or exists (select from postrider.outbox_exception x where x.state = 'scheduled' and x.next_attempt_at <= (select clock_timestamp()))
       or exists (select from postrider.outbox_exception x where x.state = 'scheduled'
                  and x.next_attempt_at > (select clock_timestamp()) + $3::bigint * interval '1 microsecond' and x.attempts > 0),
       exists (select from postrider.outbox_exception x where x.state = 'exhausted'),
       exists (select from postrider.outbox_hold h) or exists (select from postrider.outbox_exception x where x.state = 'scheduled')
