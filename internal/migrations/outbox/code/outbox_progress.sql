-- Gaps that the newest receipt does not have follow from the last that has them: nothing that was disposed of or forgotten
-- comes back.
create or replace view postrider.outbox_progress as
select n.number, n.term, n.position,
       case when n.gaps is not null then n.gaps
            else b.gaps + case when n.position > b.position then int8multirange(int8range(b.position + 1, n.position + 1)) else '{}' end
                 - coalesce((select range_agg(went) from postrider.outbox_receipt r, unnest(r.events) went where r.number > b.number), '{}')
                 - coalesce((select range_agg(gone) from postrider.outbox_receipt r, unnest(r.forgotten) gone where r.number > b.number), '{}')
       end as gaps
from (select r.number, r.term, r.position, r.gaps from postrider.outbox_receipt r order by r.number desc limit 1) n
left join lateral (select r.number, r.position, r.gaps from postrider.outbox_receipt r
                   where n.gaps is null and r.gaps is not null order by r.number desc limit 1) b on true;
comment on view postrider.outbox_progress is
'How far the log was read: number and term of the newest receipt, the position, and the gaps below it, ids that were not visible and may still be committed.';
