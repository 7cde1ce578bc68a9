-- The order service's own tables, beside which it writes its events.
create schema if not exists demo;

create table if not exists demo.orders (
    order_id    bigint generated always as identity primary key,
    customer_id bigint not null,
    cents       integer not null,
    status      text not null default 'placed' check (status in ('placed', 'paid')),
    placed_at   timestamptz not null default now()
);
comment on table demo.orders is 'Orders of the demonstration: postrider dev --demo.';

create index if not exists orders_unpaid on demo.orders (order_id) where status = 'placed';

-- The headers of an urgent order, and the mistake of this service: the value of a header must be text. Once it
-- is mended (README.md, "A walk"), it stays mended when the demonstration starts again.
do $$
begin
    if to_regprocedure('demo.urgent_headers()') is null then
        create function demo.urgent_headers() returns jsonb language sql immutable as 'select jsonb_build_object(''priority'', 5)';
        comment on function demo.urgent_headers() is 'The headers of an urgent order. As it is made, its header can never be sent.';
    end if;
end
$$;
