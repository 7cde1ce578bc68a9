-- Makes the rules about attempts exactly these, in their order.
with wanted as materialized (
    select w.place - 1 as place, w.topics, w.max_attempts from unnest($1::text[], $2::int[]) with ordinality w(topics, max_attempts, place)
), gone as (
    delete from postrider.outbox_attempt_rule o where not exists (select from wanted w where w.place = o.place)
)
insert into postrider.outbox_attempt_rule as o (place, topics, max_attempts)
select w.place, w.topics, w.max_attempts from wanted w order by w.place
on conflict (place) do update set topics = excluded.topics, max_attempts = excluded.max_attempts
where (o.topics, o.max_attempts) is distinct from (excluded.topics, excluded.max_attempts)
