-- Whether holds or scheduled events are due, or people asked something of holds. A hold that is due in more than $1
-- microseconds, or a failed event in more than $2, is due: the clock was put back.
select exists (select from postrider.outbox_hold h where h.asked is not null and h.scope <> 'dead_letter')
       or exists (select from postrider.outbox_hold h where h.draining and h.scope <> 'dead_letter')
       or exists (select from postrider.outbox_hold h where h.next_probe_at <= (select clock_timestamp()) and h.scope <> 'dead_letter')
       or exists (select from postrider.outbox_hold h where h.next_probe_at > (select clock_timestamp()) + $1::bigint * interval '1 microsecond'
                  and h.next_probe_at < 'infinity' and h.scope <> 'dead_letter')
       or exists (select from postrider.outbox_exception x where x.state = 'scheduled' and x.next_attempt_at <= (select clock_timestamp()))
       or exists (select from postrider.outbox_exception x where x.state = 'scheduled'
                  and x.next_attempt_at > (select clock_timestamp()) + $2::bigint * interval '1 microsecond' and x.attempts > 0)
