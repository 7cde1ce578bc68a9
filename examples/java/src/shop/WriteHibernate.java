package shop;

import jakarta.persistence.Column;
import jakarta.persistence.Entity;
import jakarta.persistence.Id;
import jakarta.persistence.Table;
import java.util.UUID;
import org.hibernate.SessionFactory;
import org.hibernate.annotations.JdbcTypeCode;
import org.hibernate.cfg.Configuration;
import org.hibernate.type.SqlTypes;

/**
 * Writes with Hibernate. The event is no entity: Hibernate would ask for its generated id (returning), which a writer may not
 * read. A cast is written as cast(… as jsonb), because {@code :jsonb} looks like a parameter.
 */
final class WriteHibernate {

  @Entity
  @Table(name = "shop_order")
  static class ShopOrder {
    @Id
    @Column(name = "order_id")
    String id;

    @JdbcTypeCode(SqlTypes.JSON)
    String details;
  }

  static SessionFactory factory(Class<?>... entities) {
    var configuration = new Configuration().setProperty("hibernate.connection.url", Database.url());
    for (Class<?> entity : entities) {
      configuration.addAnnotatedClass(entity);
    }
    return configuration.buildSessionFactory();
  }

  static UUID place(Write.Order order) {
    try (var factory = factory(ShopOrder.class)) {
      factory.inTransaction(session -> session.createNativeMutationQuery(Write.SCHEMA).executeUpdate());
      return factory.fromTransaction(
          session -> {
            var row = new ShopOrder();
            row.id = order.id();
            row.details = order.details();
            session.persist(row);
            // Hibernate sends its statements at the commit, inserts before updates. What locks the key's row must be sent
            // before the event is written, or events of a key are out of order.
            session.flush();
            UUID event =
                session
                    .createNativeQuery("select postrider.outbox_publish(:topic, :key, cast(:payload as jsonb), headers => cast(:headers as jsonb))", UUID.class)
                    .setParameter("topic", order.topic())
                    .setParameter("key", order.id())
                    .setParameter("payload", order.details())
                    .setParameter("headers", order.headers())
                    .getSingleResult();
            order.failIfTold();
            return event;
          });
    }
  }

  private WriteHibernate() {}
}
