-- Without settings of its own, so that it is inlined, as outbox_content.
create or replace function postrider.outbox_returning(p_id bigint, p_event_id uuid)
returns table (episode integer, headers jsonb)
language sql stable as $$
    select x.episode, x.headers
    from postrider.outbox_exception x
    join postrider.outbox_hold h on h.hold_id = x.hold_id and h.cause = 'redrive' and h.event_id = x.event_id
    where x.id = p_id and x.event_id = p_event_id and x.state = 'parked' and x.copied and x.sending_since is null and x.updated_at = now()
$$;
comment on function postrider.outbox_returning(bigint, uuid) is
'Internal. An event that this transaction redrove in its place with outbox_redrive: how often it had been given up, and its headers. No row is returned for any other event. So no other session can have the event in hand, and nothing was sent of it.';
revoke all on function postrider.outbox_returning(bigint, uuid) from public;
