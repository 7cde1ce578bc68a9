-- synchronous_commit of this session, where else it is off (by database and role, for sessions in this database), how
-- many standbys are connected, and which of them commits wait for. Who receives logical changes is no standby.
select current_setting('synchronous_commit'),
       array(select case when s.setrole = 0 then 'this database' else 'the role ' || s.setrole::regrole::text end
             from pg_catalog.pg_db_role_setting s cross join unnest(s.setconfig) o
             where s.setdatabase in (0, (select d.oid from pg_catalog.pg_database d where d.datname = current_database()))
               and o ~ '^synchronous_commit=(off|false|no|0)$' order by 1),
       (select count(*) from pg_catalog.pg_stat_replication r
        where r.state is distinct from 'backup'
          and not exists (select from pg_catalog.pg_replication_slots s where s.active_pid = r.pid and s.slot_type = 'logical')),
       current_setting('synchronous_standby_names')
