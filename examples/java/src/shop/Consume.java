package shop;

import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.IOException;
import java.sql.Connection;
import java.sql.DriverManager;
import java.sql.SQLException;
import java.time.Duration;
import java.time.Instant;
import java.util.ArrayList;
import java.util.Collection;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.concurrent.CountDownLatch;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.consumer.ConsumerRebalanceListener;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.WakeupException;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/**
 * Consumes orders and ships each once. An order that cannot be shipped is tried again from the retry topics of this consumer
 * group, and becomes a dead letter in the end. The README lists the variables of the environment. If the database or Kafka
 * is away the program ends, and nothing is lost: start it again.
 */
public final class Consume {

  private final String topic = environment("TOPIC", "orders");
  private final String group = environment("GROUP", "shop");
  private final String deadLetters = environment("DLQ_TOPIC", "postrider.consumer.dlq");
  private final List<String> delays = List.of(environment("RETRY_DELAYS", "1s,10s,30s,2m").split(","));
  private final String retryTopic = topic + "." + group + ".retry"; // read by this group alone: the desk redrives to it
  private final List<String> tiers = delays.stream().map(d -> retryTopic + "." + d).toList();
  private final ObjectMapper json = new ObjectMapper();
  private final Map<TopicPartition, Instant> waiting = new HashMap<>(); // partitions whose next message is not due

  private final Map<String, Object> kafka = Map.of("bootstrap.servers", environment("KAFKA_BROKERS", "localhost:9092"));
  private final KafkaProducer<byte[], byte[]> producer = new KafkaProducer<>(kafka, new ByteArraySerializer(), new ByteArraySerializer()); // acks=all, idempotent
  private final KafkaConsumer<byte[], byte[]> consumer = new KafkaConsumer<>(with("group.id", group, "auto.offset.reset", "earliest", "enable.auto.commit", "false"), new ByteArrayDeserializer(), new ByteArrayDeserializer());
  private final Connection database = DriverManager.getConnection(Database.url());

  private Consume() throws SQLException {}

  public static void main(String[] args) throws Exception {
    var consume = new Consume();
    var ended = new CountDownLatch(1);
    Runtime.getRuntime()
        .addShutdownHook(
            new Thread(
                () -> {
                  consume.consumer.wakeup();
                  try {
                    ended.await();
                    Runtime.getRuntime().halt(0); // 143 would be said otherwise: it ended as it was asked to
                  } catch (InterruptedException e) {
                    Thread.currentThread().interrupt();
                  }
                }));
    try {
      consume.run();
    } catch (WakeupException e) {
      consume.consumer.close(); // what was handled is committed
      consume.producer.close();
      ended.countDown();
    } catch (Exception e) {
      e.printStackTrace();
      Runtime.getRuntime().halt(1);
    }
  }

  private void run() throws Exception {
    try (var statement = database.createStatement()) {
      statement.execute("create table if not exists shop_article (article text primary key, shipped integer not null default 0)");
    }
    database.setAutoCommit(false);
    createTopics();
    List<String> topics = new ArrayList<>(tiers);
    topics.add(topic);
    topics.add(retryTopic);
    consumer.subscribe(
        topics,
        new ConsumerRebalanceListener() {
          @Override
          public void onPartitionsRevoked(Collection<TopicPartition> gone) {
            waiting.keySet().removeAll(gone);
          }

          @Override
          public void onPartitionsAssigned(Collection<TopicPartition> added) {}
        });
    while (true) {
      var due = waiting.entrySet().stream().filter(w -> !w.getValue().isAfter(Instant.now())).map(Map.Entry::getKey).toList();
      consumer.resume(due);
      waiting.keySet().removeAll(due);
      var records = consumer.poll(Duration.ofMillis(100));
      for (TopicPartition partition : records.partitions()) {
        consumePartition(partition, records.records(partition));
      }
    }
  }

  private void consumePartition(TopicPartition partition, List<ConsumerRecord<byte[], byte[]>> records) throws Exception {
    for (var record : records) {
      Retry.Past past = Retry.past(record, group);
      if (past.due() != null && past.due().isAfter(Instant.now())) {
        // Its partition waits, and no other. The message is read again when it is due.
        consumer.pause(List.of(partition));
        consumer.seek(partition, record.offset());
        waiting.put(partition, past.due());
        return;
      }
      handleOrHandOn(record, past);
      consumer.commitSync(Map.of(partition, new OffsetAndMetadata(record.offset() + 1)));
    }
  }

  /** Handles a message, or hands it on to a retry topic or to the dead-letter topic. If neither can be done it throws. */
  private void handleOrHandOn(ConsumerRecord<byte[], byte[]> record, Retry.Past past) throws Exception {
    try {
      handle(record, past);
    } catch (Retry.Refused e) {
      boolean again = !e.permanent && past.failed() < delays.size();
      Instant due = again ? Instant.now().plus(Retry.delay(delays.get(past.failed()))) : null;
      String to = again ? tiers.get(past.failed()) : deadLetters;
      System.err.printf("%s/%d/%d: %s: %s; to %s%n", record.topic(), record.partition(), record.offset(), e.code, e.getMessage(), to);
      var headers = Retry.failed(record, past, group, e, retryTopic, due);
      producer.send(new ProducerRecord<>(to, null, record.key(), record.value(), headers)).get();
    }
  }

  /** Handles a message once: a copy finds the row of the inbox, and nothing is done. */
  private void handle(ConsumerRecord<byte[], byte[]> record, Retry.Past past) throws SQLException, Retry.Refused {
    try (var note = database.prepareStatement("insert into inbox_message (consumer_group, message_id) values (?, ?) on conflict do nothing")) {
      note.setString(1, group);
      note.setString(2, Retry.messageId(record, past));
      if (note.executeUpdate() == 1) {
        ship(record.value());
      }
      database.commit();
    } catch (SQLException | Retry.Refused e) {
      database.rollback();
      throw e;
    }
  }

  /** Ships an order, in the transaction in which the inbox has noted it. */
  private void ship(byte[] value) throws SQLException, Retry.Refused {
    String article = article(value).orElseThrow(() -> new Retry.Refused("NO_ARTICLE", "the order names no article", true));
    try (var update = database.prepareStatement("update shop_article set shipped = shipped + 1 where article = ?")) {
      update.setString(1, article);
      if (update.executeUpdate() == 0) {
        throw new Retry.Refused("UNKNOWN_ARTICLE", "article \"" + article + "\" is not known", false);
      }
    }
  }

  private Optional<String> article(byte[] value) {
    try {
      return value == null ? Optional.empty() : Optional.ofNullable(json.readTree(value)).map(o -> o.get("article")).filter(JsonNode::isTextual).map(JsonNode::textValue);
    } catch (JsonProcessingException e) {
      return Optional.empty();
    } catch (IOException e) {
      throw new IllegalStateException(e); // of memory
    }
  }

  /** Creates the retry topics that are missing, with as many partitions as the topic has. */
  private void createTopics() throws Exception {
    try (Admin admin = Admin.create(kafka)) {
      int partitions = admin.describeTopics(List.of(topic)).allTopicNames().get().get(topic).partitions().size();
      var there = admin.listTopics().names().get();
      List<String> wanted = new ArrayList<>(tiers);
      wanted.add(retryTopic);
      admin.createTopics(wanted.stream().filter(t -> !there.contains(t)).map(t -> new NewTopic(t, Optional.of(partitions), Optional.empty())).toList()).all().get();
    }
  }

  private Map<String, Object> with(String... pairs) {
    Map<String, Object> all = new HashMap<>(kafka);
    for (int i = 0; i < pairs.length; i += 2) {
      all.put(pairs[i], pairs[i + 1]);
    }
    return all;
  }

  private static String environment(String name, String without) {
    String value = System.getenv(name);
    return value == null || value.isEmpty() ? without : value;
  }
}
