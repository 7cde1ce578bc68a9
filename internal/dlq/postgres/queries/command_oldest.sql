-- The oldest command that each of the sources $1 has not answered, how many there are from it on, and when the source last said
-- that it could not obey yet.
select w.name, n.count, n.oldest, n.busy
from unnest($1::text[]) as w(name)
cross join lateral (
    select count(*) as count, min(c.created_at) as oldest, max(c.busy_at) as busy
    from postrider.dlq_command c where c.source = w.name and c.answered_at is null) n
where n.count > 0
