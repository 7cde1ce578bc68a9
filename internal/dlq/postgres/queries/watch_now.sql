-- The time up to which changes are looked at: what a transaction changed that began later may not be there yet.
select clock_timestamp() - make_interval(secs => $1::float8)
