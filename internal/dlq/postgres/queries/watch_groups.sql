-- Groups by their state of now, up to $1 of each state that is stored.
select postrider.dlq_group_state(g.state, g.muted_until, g.created_at, g.pending), count(*)
from unnest(array['new', 'ongoing', 'regressed', 'resolved', 'muted']) s(state)
cross join lateral (
    select o.state, o.muted_until, o.created_at, o.pending from postrider.dlq_group o
    where o.state = s.state and o.fingerprint_version > 0 limit $1::int) g
group by 1
