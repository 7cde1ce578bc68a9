-- How many calls to source $1 were drawn.
select s.drawn from postrider.dlq_source s where s.source = $1
