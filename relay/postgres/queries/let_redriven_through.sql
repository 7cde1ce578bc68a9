-- The hold of the key goes on until the event $3 is acknowledged, and lets it pass.
with held as (
    update postrider.outbox_hold set cause = 'redrive', next_probe_at = 'infinity', draining = false where hold_id = $1
)
insert into postrider.outbox_hold_shard as hs (hold_id, shard, returned_through) values ($1, $2, $3)
on conflict (hold_id, shard) do update set returned_through = excluded.returned_through
