-- What ended a day ago says nothing more that the audit log does not say.
with links as (delete from postrider.access_link where expires_at < now() - interval '1 day' returning 1),
     sessions as (delete from postrider.access_session where expires_at < now() - interval '1 day' returning 1)
select (select count(*) from links) + (select count(*) from sessions)
