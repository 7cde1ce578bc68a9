-- What became of the events after $1, and how far the next count need not look again: up to there
-- everything is settled. The last thousand ids are always looked at, because a transaction that got
-- its id early may commit late.
with e as materialized (
    select id, state in ('published', 'dead_lettered') as settled, state = 'published' as published, state = 'dead_lettered' as dead
    from postrider.v_outbox_event where id > $1
), edge as (
    select greatest($1, least(min(id) filter (where not settled) - 1, max(id) - 1000)) as through from e
)
select count(id), count(*) filter (where published), count(*) filter (where dead),
       through, count(*) filter (where id <= through),
       count(*) filter (where published and id <= through), count(*) filter (where dead and id <= through),
       (select count(*) from postrider.dlq_entry where resolution_status = 'pending'),
       (select count(*) from postrider.dlq_entry where resolution_status = 'pending' and subject_type = 'task')
from edge left join e on true
group by through
