insert into demo.orders (customer_id, cents) values ($1, $2) returning order_id
