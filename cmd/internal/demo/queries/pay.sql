-- The oldest unpaid order. Its row lock is what keeps the events of one order in order.
update demo.orders set status = 'paid'
where order_id = (select order_id from demo.orders where status = 'placed' order by order_id limit 1 for update skip locked)
returning order_id, customer_id, cents
