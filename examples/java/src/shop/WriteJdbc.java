package shop;

import java.sql.Connection;
import java.sql.DriverManager;
import java.sql.SQLException;
import java.util.UUID;

/** Writes with JDBC alone. JSON is text with {@code ?::jsonb}: setString alone finds no function. */
final class WriteJdbc {

  static UUID place(Write.Order order) throws SQLException {
    try (Connection connection = DriverManager.getConnection(Database.url())) {
      try (var statement = connection.createStatement()) {
        statement.execute(Write.SCHEMA);
      }
      connection.setAutoCommit(false);
      try {
        UUID event = write(connection, order);
        order.failIfTold();
        connection.commit();
        return event;
      } catch (SQLException | RuntimeException e) {
        connection.rollback();
        throw e;
      }
    }
  }

  private static UUID write(Connection connection, Write.Order order) throws SQLException {
    try (var insert = connection.prepareStatement("insert into shop_order (order_id, details) values (?, ?::jsonb)")) {
      insert.setString(1, order.id());
      insert.setString(2, order.details());
      insert.executeUpdate();
    }
    try (var publish = connection.prepareStatement("select postrider.outbox_publish(?, ?, ?::jsonb, headers => ?::jsonb)")) {
      publish.setString(1, order.topic());
      publish.setString(2, order.id());
      publish.setString(3, order.details());
      publish.setString(4, order.headers());
      try (var rows = publish.executeQuery()) {
        rows.next();
        return rows.getObject(1, UUID.class);
      }
    }
  }

  private WriteJdbc() {}
}
