select c.relname::text, row_security_active(c.oid)
from pg_catalog.pg_class c
where c.relnamespace = to_regnamespace('postrider') and c.relrowsecurity
order by c.relname
