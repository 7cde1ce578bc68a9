-- A hold whose probe is more than $2 microseconds away is due: the clock was put back.
select h.hold_id, h.next_probe_at <= (select clock_timestamp())
    or h.next_probe_at > (select clock_timestamp()) + $2::bigint * interval '1 microsecond' and h.next_probe_at < 'infinity',
    coalesce(h.asked, ''), 0::bigint
from (
    (select h.hold_id from postrider.outbox_hold h where h.asked is not null and h.scope <> 'dead_letter' order by h.hold_id limit $1::int)
    union
    (select h.hold_id from postrider.outbox_hold h where h.draining and h.scope <> 'dead_letter' order by h.hold_id limit $1::int)
    union
    (select h.hold_id from postrider.outbox_hold h where h.next_probe_at <= (select clock_timestamp()) and h.scope <> 'dead_letter'
        order by h.next_probe_at limit $1::int)
    union
    (select h.hold_id from postrider.outbox_hold h where h.next_probe_at > (select clock_timestamp()) + $2::bigint * interval '1 microsecond'
        and h.next_probe_at < 'infinity' and h.scope <> 'dead_letter' order by h.next_probe_at limit $1::int)
) d join postrider.outbox_hold h on h.hold_id = d.hold_id
union all
select 0, false, '', coalesce((extract(epoch from least(
    (select min(h.next_probe_at) from postrider.outbox_hold h where h.next_probe_at > (select clock_timestamp())
        and h.next_probe_at < 'infinity' and h.scope <> 'dead_letter'),
    (select min(x.next_attempt_at) from postrider.outbox_exception x where x.state = 'scheduled')) - clock_timestamp()) * 1000000)::bigint,
        3600000000)
where not exists (select from postrider.outbox_hold h where h.next_probe_at <= (select clock_timestamp()) and h.scope <> 'dead_letter')
