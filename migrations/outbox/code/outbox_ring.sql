-- Without a search_path of its own, which would cost more than all the rest: so every name below, and every
-- operator, is written with its schema. With the owner's rights, so that writers need none.
create or replace function postrider.outbox_ring() returns trigger
language plpgsql volatile security definer as $$
begin
    if pg_catalog.pg_sequence_last_value('postrider.outbox_doorbell'::pg_catalog.regclass) operator(pg_catalog.>) 1::pg_catalog.int8 then
        if pg_catalog.pg_sequence_last_value('postrider.outbox_doorbell'::pg_catalog.regclass)
           operator(pg_catalog.>) (pg_catalog.date_part('epoch', pg_catalog.clock_timestamp()) operator(pg_catalog.*) 1000::pg_catalog.float8)::pg_catalog.int8 then
            perform pg_catalog.pg_notify('postrider_outbox', '');
        end if;
    end if;
    return null;
end $$;
comment on function postrider.outbox_ring() is
'Notifies the channel postrider_outbox, with an empty payload, when the transaction commits, if a relay armed outbox_doorbell.';
revoke all on function postrider.outbox_ring() from public;
