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
