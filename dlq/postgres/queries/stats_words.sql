-- Investigations by the word of their group, the most first.
select g.word, sum(g.entries)::bigint
from postrider.dlq_group g where g.entries > 0
group by g.word order by 2 desc, 1
