insert into postrider.outbox_write_probe (filler) values (repeat('x', 450))
