-- The traceparents of letters' messages that have one; $2 is the name of the header. One that is cut is not valid.
select h.traceparent
from unnest($1::text[]) as w(id)
cross join lateral (select l.headers from postrider.dlq_letter l where l.letter_id = w.id limit 1) l
cross join lateral (
    select left(coalesce(min(x.pair->>1), ''), 256) as traceparent
    from jsonb_array_elements(l.headers) x(pair) where x.pair->>0 = $2::text having count(*) = 1) h
