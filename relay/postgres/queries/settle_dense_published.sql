-- Settles what claim_dense read, all of it: the pending events of the locked shards with ids above $1 up to
-- $2. Says by its number of rows whether it was that.
with claimed as materialized (
    select coalesce(sum(1::bigint << s), 0)::bigint as mask from unnest(current_setting('postrider.claim')::smallint[]::int[]) s
)
update postrider.outbox_event e
set state = 'published', sent_at = clock_timestamp(), updated_at = now(), next_attempt_at = null
where e.id > $1::bigint and e.id <= $2::bigint
  and ((select mask from claimed) >> e.shard) & 1 = 1 and e.state is not distinct from 'pending' -- see claim_dense
