-- The command that notes where the console is served. A setting of the database has no parameters, so its text is made here.
-- $1: the address
select format('alter database %I set postrider.console_url = %L', current_database(), $1::text)
