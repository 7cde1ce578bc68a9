-- A page of groups, without the empty ones that were merged into others. Whatever the order, it is by a number: of
-- microseconds, or of investigations.
select listed.* from (
    select g.dlq_group_uuid, g.fingerprint, g.fingerprint_version, g.parts, g.title, g.topic, g.word,
           postrider.dlq_group_state(g.state, g.muted_until, g.created_at, g.pending), g.muted_until, g.total, g.entries, g.pending,
           g.occurrences, g.first_seen_at, g.last_seen_at, g.resolved_through, g.last_entry_uuid, g.assignee, g.note, g.created_at, g.updated_at,
           (select f.dlq_group_uuid from postrider.dlq_fingerprint f where f.fingerprint = g.fingerprint) as merged_into,
           case $6::text when 'last_seen_at' then (extract(epoch from g.last_seen_at) * 1000000)::bigint
                         when 'first_seen_at' then (extract(epoch from g.first_seen_at) * 1000000)::bigint
                         when 'pending' then g.pending else g.total end as place
    from postrider.dlq_group g
    where g.total > 0
      and (g.entries > 0 or not exists (select from postrider.dlq_fingerprint f where f.fingerprint = g.fingerprint))
      and ($1::text = '' or postrider.dlq_group_state(g.state, g.muted_until, g.created_at, g.pending) = $1)
      and ($2::text = '' or g.topic = $2)
      and ($3::text = '' or g.error_code = $3)
      and ($4::text = '' or g.assignee = $4)
      and ($5::text = '' or g.title ilike $5)
) listed
where $7::bigint is null or (listed.place, listed.dlq_group_uuid) </*way*/ ($7, $8::uuid)
order by listed.place desc/*way*/, listed.dlq_group_uuid desc/*way*/
limit $9
