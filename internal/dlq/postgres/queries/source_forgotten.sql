-- Which of the sources $1 are forgotten.
select s.source from postrider.dlq_source s where s.source = any ($1::text[]) and s.forgotten_at is not null
