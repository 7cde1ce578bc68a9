package shop;

import java.util.UUID;
import org.springframework.jdbc.core.JdbcTemplate;
import org.springframework.jdbc.datasource.DataSourceTransactionManager;
import org.springframework.jdbc.datasource.DriverManagerDataSource;
import org.springframework.transaction.support.TransactionTemplate;

/**
 * Writes with Spring's JdbcTemplate. Whether the transaction is a TransactionTemplate's or that of @Transactional, the
 * template must have the data source of the transaction manager: with another one, the event is written in a transaction of
 * its own.
 */
final class WriteSpring {

  static UUID place(Write.Order order) {
    var source = new DriverManagerDataSource(Database.url());
    var jdbc = new JdbcTemplate(source);
    jdbc.execute(Write.SCHEMA);
    return new TransactionTemplate(new DataSourceTransactionManager(source))
        .execute(
            status -> {
              jdbc.update("insert into shop_order (order_id, details) values (?, ?::jsonb)", order.id(), order.details());
              UUID event =
                  jdbc.queryForObject(
                      "select postrider.outbox_publish(?, ?, ?::jsonb, headers => ?::jsonb)", UUID.class, order.topic(), order.id(), order.details(), order.headers());
              order.failIfTold();
              return event;
            });
  }

  private WriteSpring() {}
}
