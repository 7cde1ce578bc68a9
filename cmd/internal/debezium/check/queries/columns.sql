-- The columns of a table, each with its type (under a domain), the kind of the type (e is an enum), its precision where it has
-- one, and whether it may be null.
select a.attname::text, pg_catalog.format_type(coalesce(nullif(t.typbasetype, 0), t.oid), null), coalesce(b.typtype, t.typtype)::text,
       case when t.typtype = 'd' then t.typtypmod else a.atttypmod end, not (a.attnotnull or t.typnotnull)
from pg_catalog.pg_attribute a
    join pg_catalog.pg_type t on t.oid = a.atttypid
    left join pg_catalog.pg_type b on b.oid = nullif(t.typbasetype, 0)
where a.attrelid = $1 and a.attnum > 0 and not a.attisdropped
order by a.attnum
