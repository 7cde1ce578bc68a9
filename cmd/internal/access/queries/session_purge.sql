with links as (
    delete from postrider.access_link where access_link_id in (
        select l.access_link_id from postrider.access_link l where l.expires_at < now() - $1::bigint * interval '1 microsecond'
        order by l.expires_at limit $2 for update skip locked) returning 1
), sessions as (
    delete from postrider.access_session where access_session_id in (
        select s.access_session_id from postrider.access_session s where s.expires_at < now() - $1::bigint * interval '1 microsecond'
        order by s.expires_at limit $2 for update skip locked) returning 1
)
select ((select count(*) from links) + (select count(*) from sessions))::int,
       (select count(*) from links) >= $2 or (select count(*) from sessions) >= $2
