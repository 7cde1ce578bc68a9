-- From PostgreSQL 15 on a publication may send some rows and some columns of a table.
select r.prqual is not null, r.prattrs is not null
from pg_catalog.pg_publication_rel r join pg_catalog.pg_publication p on p.oid = r.prpubid
where p.pubname = $1 and r.prrelid = $2
