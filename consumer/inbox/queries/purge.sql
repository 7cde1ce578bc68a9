-- Removes up to $2 messages that were handled more than $1 seconds ago, the oldest first. Returns how many were removed,
-- how many were found, and the time of the last that was found, in microseconds since 1970. $3 is that of the call
-- before, 0 at first: so no call walks over the index entries of what the calls before it have removed.
-- In a partitioned table a row of another partition can have the same ctid; it goes only if it is old enough too.
with old as materialized (
    select ctid as place, handled_at from /*schema*/inbox_message
    where handled_at < now() - make_interval(secs => $1::float8)
      and handled_at >= timestamptz 'epoch' + $3::bigint * interval '1 microsecond'
    order by handled_at limit $2::bigint
), gone as (
    delete from /*schema*/inbox_message
    where ctid = any (array(select place from old)) and handled_at < now() - make_interval(secs => $1::float8)
    returning 1
)
select (select count(*) from gone), count(*), coalesce((extract(epoch from max(handled_at)) * 1000000)::bigint, $3::bigint) from old
