create table if not exists customer (
    name text primary key
);
comment on table customer is 'Customers that this service knows. It does not add them itself.';
create table if not exists customer_total (
    customer text primary key references customer,
    orders   bigint not null,
    cents    bigint not null
);
comment on table customer_total is 'How many orders a customer has placed and not cancelled, and for how much.';
