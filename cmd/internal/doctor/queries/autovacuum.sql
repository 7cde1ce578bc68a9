select current_setting('autovacuum') = 'on' and current_setting('track_counts') = 'on',
       array(select c.relname::text from pg_catalog.pg_class c, unnest(c.reloptions) o
             where c.relnamespace = to_regnamespace('postrider') and c.relkind in ('r', 'p')
               and o in ('autovacuum_enabled=false', 'autovacuum_enabled=off', 'autovacuum_enabled=0', 'autovacuum_enabled=no')
             order by 1)
