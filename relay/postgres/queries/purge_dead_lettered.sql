-- Joined to unnest: see settle_published. An event that was given up again meanwhile is another case.
delete from postrider.outbox_event e using unnest($1::bigint[], $2::int[]) as d(id, episode)
where e.id = any (array[d.id]) and e.episode = d.episode and e.state::text = 'dead_lettered'
