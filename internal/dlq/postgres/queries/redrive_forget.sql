-- Deletes the ended redrives whose investigation was purged while they were on their way. The investigations of the other
-- redrives are kept until the transaction ends, with locks in the order of redrive_lock: a purge that does not see the end
-- of a redrive leaves it to us, and a later purge sees it.
with kept as materialized (
    select w.redrive_id
    from (select r.redrive_id, r.dlq_entry_uuid
          from unnest($1::text[]) as g(id)
          cross join lateral (select r.redrive_id, r.dlq_entry_uuid from postrider.dlq_redrive r where r.redrive_id = g.id limit 1) r
          order by r.dlq_entry_uuid) w
    cross join lateral (select true from postrider.dlq_entry e where e.dlq_entry_uuid = w.dlq_entry_uuid for key share) e
)
delete from postrider.dlq_redrive r
where r.redrive_id = any (array(select unnest($1::text[]) except select k.redrive_id from kept k))
