-- The newest batch that any worker has marked, or is about to, and the oldest behind $1 that still is. A login without
-- the right to look at the numbers learns nothing new, and reads more.
select coalesce(case when pg_catalog.has_sequence_privilege('postrider.outbox_batch_batch_id_seq', 'usage, select')
                     then pg_catalog.pg_sequence_last_value('postrider.outbox_batch_batch_id_seq') end, 0),
       (select b.batch_id from postrider.outbox_batch b where b.batch_id > $1::bigint order by b.batch_id limit 1)
