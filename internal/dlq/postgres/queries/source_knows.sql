-- Whether the desk has anything of source $1.
select exists (select from postrider.dlq_source s where s.source = $1)
    or exists (select from postrider.dlq_command c where c.source = $1)
    or exists (select from postrider.dlq_group g where g.source = $1)
