-- The state now of the events of letters, or of redrives; events that are gone are left out.
select s.place, s.state, s.episode from postrider.outbox_standing($1::bigint[], $2::uuid[]) s
