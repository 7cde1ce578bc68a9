-- Where the walk goes on; $3 says that it begins anew.
update postrider.outbox_purge
set position = $2, round_began_at = case when $3 then clock_timestamp() else coalesce(round_began_at, clock_timestamp()) end
where kind = $1
