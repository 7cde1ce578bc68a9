package shop;

import com.fasterxml.jackson.databind.ObjectMapper;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.UUID;

/**
 * Places an order and writes an event about it, in one transaction. Prints the event's id as JSON.
 *
 * <pre>shop.Write jdbc|spring|hibernate TOPIC ORDER_ID DETAILS [--header NAME=VALUE]... [--fail]</pre>
 *
 * No library of Postrider is needed: the outbox is a function of the database.
 */
public final class Write {

  /** An order, and the event about it. Details and headers are JSON; headers are pairs, because names may repeat. */
  record Order(String topic, String id, String details, String headers, boolean fail) {
    /** Ends the transaction before its commit, where that is asked for. */
    void failIfTold() {
      if (fail) {
        throw new IllegalStateException("told to fail after both were written");
      }
    }
  }

  static final String SCHEMA = "create table if not exists shop_order (order_id text primary key, details jsonb not null)";

  public static void main(String[] args) throws Exception {
    if (args.length < 4) {
      throw new IllegalArgumentException("usage: shop.Write jdbc|spring|hibernate TOPIC ORDER_ID DETAILS [--header NAME=VALUE]... [--fail]");
    }
    List<List<String>> headers = new ArrayList<>();
    boolean fail = false;
    for (int i = 4; i < args.length; i++) {
      if (args[i].equals("--fail")) {
        fail = true;
      } else if (args[i].equals("--header") && i + 1 < args.length) {
        headers.add(List.of(args[++i].split("=", 2)));
      }
    }
    ObjectMapper json = new ObjectMapper();
    Order order = new Order(args[1], args[2], args[3], json.writeValueAsString(headers), fail);
    UUID event =
        switch (args[0]) {
          case "jdbc" -> WriteJdbc.place(order);
          case "spring" -> WriteSpring.place(order);
          case "hibernate" -> WriteHibernate.place(order);
          default -> throw new IllegalArgumentException(args[0] + " is none of jdbc, spring and hibernate");
        };
    System.out.println(json.writeValueAsString(Map.of("event_id", event.toString(), "order_id", order.id())));
  }

  private Write() {}
}
