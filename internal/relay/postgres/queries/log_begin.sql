-- Where a term begins: the newest receipt, what follows from it, how the last terms ended, and about the newest id that was
-- drawn, -1 where that is not known.
select p.number, p.term, p.position, p.gaps::text,
       coalesce((select jsonb_agg(jsonb_build_object('term', r.term, 'position', r.position, 'worker', r.worker,
                     'waited', coalesce((select e.created_at < r.at from postrider.outbox_event e where e.id > r.position order by e.id limit 1), false),
                     'ended', exists (select from postrider.outbox_receipt e where e.note = 'ended' and e.term = r.term and e.number >= r.number)) order by r.number desc)
                 from (select * from postrider.outbox_receipt r where r.note = 'began' order by r.number desc limit 40) r), '[]')::text,
       coalesce((select jsonb_agg(r.trying order by r.number desc)
                 from (select r.trying, r.number from postrider.outbox_receipt r where r.note = 'trying' order by r.number desc
                     limit 100) r), '[]')::text,
       case when pg_catalog.has_sequence_privilege(pg_catalog.to_regclass('postrider.outbox_event_id_seq'), 'usage, select')
            then coalesce(pg_catalog.pg_sequence_last_value(pg_catalog.to_regclass('postrider.outbox_event_id_seq')), 0) else -1 end
from postrider.outbox_progress p
