-- The walk of a kind, for one purger at a time; nothing when somebody else has it.
select position, coalesce(round_began_at <= clock_timestamp() - interval '1 day', false)
from postrider.outbox_purge where kind = $1 for update skip locked
