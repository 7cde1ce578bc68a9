package shop;

import com.fasterxml.jackson.databind.ObjectMapper;
import jakarta.persistence.Column;
import jakarta.persistence.Entity;
import jakarta.persistence.GeneratedValue;
import jakarta.persistence.GenerationType;
import jakarta.persistence.Id;
import jakarta.persistence.Table;
import java.nio.charset.StandardCharsets;
import java.sql.Connection;
import java.sql.DriverManager;
import java.sql.PreparedStatement;
import java.sql.SQLException;
import java.sql.Statement;
import java.util.Map;
import java.util.TreeMap;
import java.util.UUID;
import org.postgresql.util.PGobject;
import org.springframework.jdbc.core.JdbcTemplate;
import org.springframework.jdbc.datasource.DriverManagerDataSource;

/**
 * Tries what looks right and is not, beside what is, as a login with postrider_writer. Prints the SQLSTATE of each try as
 * JSON, or "ok". Nothing is kept.
 */
public final class Traps {

  private static final String PUBLISH = "select postrider.outbox_publish('shop.traps', 'k', ?)";
  private static final String INSERT = "insert into postrider.outbox_event (topic, key, payload) values ('shop.traps', ?, ?)";
  private static final byte[] BYTES = "{}".getBytes(StandardCharsets.UTF_8);

  /** The outbox as an entity, which it cannot be. */
  @Entity
  @Table(schema = "postrider", name = "outbox_event")
  static class OutboxEvent {
    @Id
    @GeneratedValue(strategy = GenerationType.IDENTITY)
    Long id;

    @Column String topic = "shop.traps";
    @Column byte[] payload = BYTES;
  }

  interface Try {
    void run() throws Exception;
  }

  interface Filled {
    void fill(PreparedStatement statement) throws SQLException;
  }

  public static void main(String[] args) throws Exception {
    Map<String, String> said = new TreeMap<>();
    try (Connection connection = DriverManager.getConnection(Database.url())) {
      connection.setAutoCommit(false);
      jdbc(said, connection, "setString", PUBLISH, Statement.NO_GENERATED_KEYS, s -> s.setString(1, "{}"));
      jdbc(said, connection, "setString with ?::jsonb", PUBLISH.replace("?", "?::jsonb"), Statement.NO_GENERATED_KEYS, s -> s.setString(1, "{}"));
      jdbc(said, connection, "PGobject of json", PUBLISH, Statement.NO_GENERATED_KEYS, s -> s.setObject(1, object("json")));
      jdbc(said, connection, "PGobject of jsonb", PUBLISH, Statement.NO_GENERATED_KEYS, s -> s.setObject(1, object("jsonb")));
      jdbc(said, connection, "insert", INSERT, Statement.NO_GENERATED_KEYS, Traps::bytes);
      jdbc(said, connection, "insert with a text as the key", INSERT, Statement.NO_GENERATED_KEYS, s -> {
        s.setString(1, "k");
        s.setBytes(2, BYTES);
      });
      jdbc(said, connection, "insert with RETURN_GENERATED_KEYS", INSERT, Statement.RETURN_GENERATED_KEYS, Traps::bytes);
    }
    var spring = new JdbcTemplate(new DriverManagerDataSource(Database.url()));
    attempt(said, "Spring, a text", () -> spring.queryForObject(PUBLISH, UUID.class, "{}"));
    try (var factory = WriteHibernate.factory(OutboxEvent.class)) {
      attempt(said, "Hibernate, the outbox as an entity", () -> factory.inTransaction(session -> session.persist(new OutboxEvent())));
    }
    System.out.println(new ObjectMapper().writeValueAsString(said));
  }

  private static void jdbc(Map<String, String> said, Connection connection, String name, String sql, int keys, Filled filled) throws SQLException {
    attempt(said, name, () -> {
      try (var statement = connection.prepareStatement(sql, keys)) {
        filled.fill(statement);
        statement.execute();
      }
    });
    connection.rollback();
  }

  /** Notes how a try ended: with "ok", or with the SQLSTATE of the error or of its cause. */
  private static void attempt(Map<String, String> said, String name, Try attempt) {
    try {
      attempt.run();
      said.put(name, "ok");
    } catch (Exception e) {
      said.put(name, e.toString());
      for (Throwable t = e; t != null; t = t.getCause()) {
        if (t instanceof SQLException sql) {
          said.put(name, sql.getSQLState());
        }
      }
    }
  }

  private static void bytes(PreparedStatement statement) throws SQLException {
    statement.setBytes(1, "k".getBytes(StandardCharsets.UTF_8));
    statement.setBytes(2, BYTES);
  }

  private static PGobject object(String type) throws SQLException {
    var object = new PGobject();
    object.setType(type);
    object.setValue("{}");
    return object;
  }

  private Traps() {}
}
