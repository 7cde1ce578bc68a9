-- How many sessions of this database are of Postrider, or go by the name of this session, without the ids $1.
-- Names of applications are shown to everybody.
select count(*) from pg_catalog.pg_stat_activity
where datname = current_database() and pid <> all ($1::int[])
  and (application_name like 'postrider%' or application_name = current_setting('application_name'))
