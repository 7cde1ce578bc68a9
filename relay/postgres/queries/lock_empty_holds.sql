-- Locks those of the holds $1 that are still due and that nobody is changing or parking behind just now. Says
-- which.
select set_config('postrider.emptied', coalesce(array_agg(locked.hold_id)::text, '{}'), true),
       coalesce(array_agg(locked.hold_id), '{}')
from (select h.hold_id from unnest($1::bigint[]) d(id)
      join postrider.outbox_hold h on h.hold_id = d.id
      where h.next_probe_at <= (select clock_timestamp())
      for update of h skip locked) locked
