-- Investigations, locked in an order that every session keeps. The lock keeps other sessions from changing them, but not
-- from naming them as predecessors: a session that opens a successor has its group, for which we will wait.
select e.dlq_entry_uuid
from (select w.id from unnest($1::uuid[]) as w(id) order by w.id) w
cross join lateral (select e.dlq_entry_uuid from postrider.dlq_entry e where e.dlq_entry_uuid = w.id for no key update) e
