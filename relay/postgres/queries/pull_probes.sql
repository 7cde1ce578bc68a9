-- Makes holds due whose next probe is further ahead than any of their cause can be ($2 microseconds for the
-- cause $1): the clock was put back since it was set. Says how many. One that somebody else changes right now
-- gets a new time anyway.
with far as (
    select h.hold_id from unnest($1::text[], $2::bigint[]) as l(cause, longest)
    join postrider.outbox_hold h on h.cause = l.cause
        and h.next_probe_at > (select clock_timestamp()) + l.longest * interval '1 microsecond' and h.next_probe_at < 'infinity'
    for no key update of h skip locked
), pulled as (
    update postrider.outbox_hold h set next_probe_at = clock_timestamp() from far where h.hold_id = far.hold_id returning h.hold_id
)
select count(*) from pulled
