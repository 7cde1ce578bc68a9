-- Investigations, and the open ones among them, by the word and the error code of their group.
select g.word, coalesce(g.error_code, ''), sum(g.entries)::bigint, sum(g.pending)::bigint
from postrider.dlq_group g where g.entries > 0
group by 1, 2
