-- Investigations, and the open ones among them, by the word and the error code of their group; of the sources $1, where these
-- are not null.
select g.word, coalesce(g.error_code, ''), sum(g.entries)::bigint, sum(g.pending)::bigint
from postrider.dlq_group g where g.entries > 0 and ($1::text[] is null or g.source = any ($1))
group by 1, 2
