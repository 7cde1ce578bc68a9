-- Locks those of the holds that left a shard that nobody is parking behind just now; whoever is makes them
-- stay.
select set_config('postrider.emptied', coalesce(array_agg(locked.hold_id)::text, '{}'), true)
from (select h.hold_id from unnest(current_setting('postrider.emptied')::bigint[]) d(id)
      join postrider.outbox_hold h on h.hold_id = d.id
      for update of h skip locked) locked
