-- Brings back the first parked events of a hold in a shard, up to id $4; says how many, up to which id and
-- from which id.
with first as (
    select id from postrider.outbox_event
    where hold_id = $1 and shard = $2 and state = 'parked' and id <= $4 order by id limit $3
), back as (
    update postrider.outbox_event e set state = 'pending', hold_id = null, updated_at = now()
    from first where e.id = first.id returning e.id
)
select count(*), coalesce(max(id), 0), coalesce(min(id), 0) from back
