-- Adds to what a customer has ordered. Done twice it would count twice: nothing here knows which order it was.
insert into customer_total as total (customer, orders, cents) values ($1, $2, $3)
on conflict (customer) do update set orders = total.orders + excluded.orders, cents = total.cents + excluded.cents
