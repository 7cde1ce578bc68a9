-- Makes the topics that Postrider itself writes exactly these, each with what for.
with wanted as materialized (
    select w.topic, w.use from unnest($1::text[], $2::text[]) w(topic, use)
), gone as (
    delete from postrider.outbox_own_topic o where not exists (select from wanted w where w.topic = o.topic)
)
insert into postrider.outbox_own_topic as o (topic, use)
select w.topic, w.use from wanted w order by w.topic
on conflict (topic) do update set use = excluded.use where o.use <> excluded.use
