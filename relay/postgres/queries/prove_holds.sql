-- A hold that somebody else changes right now is left to them: waiting for it, after renewing another
-- one, could be waiting for somebody who waits for this transaction.
update postrider.outbox_hold h set draining = true, next_probe_at = clock_timestamp()
from (select p.hold_id from postrider.outbox_hold p where p.hold_id = any ($1::bigint[]) and not p.draining
      for no key update skip locked) proven
where h.hold_id = proven.hold_id
