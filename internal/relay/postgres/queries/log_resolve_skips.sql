-- Settles the requests to give up events that the position has passed. Events that wait are given up; the others have
-- gone, or are on their way to the dead letters. Rows that other sessions have locked are passed over.
with due as materialized (
    select s.id, s.reason from postrider.outbox_skip_request s, postrider.outbox_progress p
    where s.id <= p.position and not s.id <@ p.gaps order by s.id limit 100 for update of s skip locked
), waiting as materialized (
    select x.id, d.reason from due d
    cross join lateral (select o.id from postrider.outbox_exception o
                        where o.id = d.id and o.state in ('parked', 'scheduled') and o.sending_since is null for update skip locked) x
), given_up as (
    select w.id, postrider.outbox_exhaust(w.id, w.reason) from waiting w
), away as (
    delete from postrider.outbox_skip_request s using due d
    where s.id = any (array[d.id]) and (select x.sending_since from postrider.outbox_exception x where x.id = d.id) is null
)
select count(*) from given_up
