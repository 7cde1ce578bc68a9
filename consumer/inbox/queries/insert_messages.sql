-- Notes that the group $1 has handled the messages whose ids are the JSON array $2, and returns the new ones, as a
-- JSON array. It waits for open transactions that have noted one of them. The ids come in sorted order: so two
-- transactions that note several at once cannot wait for one another.
with noted as (
    insert into /*schema*/inbox_message (consumer_group, message_id)
    select $1::text, m.id from jsonb_array_elements_text($2::jsonb) with ordinality as m(id, n) order by m.n
    on conflict do nothing
    returning message_id
)
select coalesce(jsonb_agg(message_id), '[]')::text from noted
