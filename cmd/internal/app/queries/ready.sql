-- Whether the database takes writes, and which rights the login lacks, empty for none. A few stand for all that
-- postrider_relay has; they are asked without touching a row. A table of a part that the database was installed without counts
-- for none.
select pg_is_in_recovery(), coalesce((
    select string_agg(w.privilege || ' on ' || w.name, ', ' order by w.name, w.privilege)
    from (values ('postrider.outbox_event', 'select'), ('postrider.outbox_receipt', 'insert'), ('postrider.outbox_exception', 'update'),
                 ('postrider.outbox_hold', 'insert'), ('postrider.outbox_write_probe', 'insert'), ('postrider.dlq_entry', 'insert'), ('postrider.dlq_letter', 'insert'),
                 ('postrider.tasker_settings', 'update')) w(name, privilege)
    where not has_table_privilege(to_regclass(w.name), w.privilege)), '')
