package interop;

import java.util.HashMap;
import java.util.Map;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;
import org.springframework.context.annotation.AnnotationConfigApplicationContext;
import org.springframework.context.annotation.Bean;
import org.springframework.context.annotation.Configuration;
import org.springframework.kafka.annotation.EnableKafka;
import org.springframework.kafka.annotation.EnableKafkaRetryTopic;
import org.springframework.kafka.annotation.KafkaListener;
import org.springframework.kafka.annotation.RetryableTopic;
import org.springframework.kafka.config.ConcurrentKafkaListenerContainerFactory;
import org.springframework.kafka.core.ConsumerFactory;
import org.springframework.kafka.core.DefaultKafkaConsumerFactory;
import org.springframework.kafka.core.DefaultKafkaProducerFactory;
import org.springframework.kafka.core.KafkaAdmin;
import org.springframework.kafka.core.KafkaTemplate;
import org.springframework.kafka.core.ProducerFactory;
import org.springframework.kafka.listener.DeadLetterPublishingRecoverer;
import org.springframework.kafka.listener.DefaultErrorHandler;
import org.springframework.retry.annotation.Backoff;
import org.springframework.scheduling.TaskScheduler;
import org.springframework.scheduling.concurrent.ThreadPoolTaskScheduler;
import org.springframework.util.backoff.FixedBackOff;

/**
 * An application as others write it, with two listeners that fail at every record whose value begins with "poison": one
 * with DeadLetterPublishingRecoverer, one with @RetryableTopic. System properties name the brokers, topics and groups.
 */
@Configuration(proxyBeanMethods = false)
@EnableKafka
@EnableKafkaRetryTopic
public class Main {

  public static void main(String[] args) throws Exception {
    try (var context = new AnnotationConfigApplicationContext(Main.class)) {
      System.out.println("interop is ready");
      Thread.currentThread().join();
    }
  }

  @Bean
  public ConsumerFactory<byte[], byte[]> consumerFactory() {
    Map<String, Object> config = new HashMap<>();
    config.put("bootstrap.servers", System.getProperty("interop.brokers"));
    config.put("key.deserializer", ByteArrayDeserializer.class);
    config.put("value.deserializer", ByteArrayDeserializer.class);
    config.put("auto.offset.reset", "earliest");
    config.put("metadata.max.age.ms", "1000");
    return new DefaultKafkaConsumerFactory<>(config);
  }

  @Bean
  public ProducerFactory<byte[], byte[]> producerFactory() {
    Map<String, Object> config = new HashMap<>();
    config.put("bootstrap.servers", System.getProperty("interop.brokers"));
    config.put("key.serializer", ByteArraySerializer.class);
    config.put("value.serializer", ByteArraySerializer.class);
    return new DefaultKafkaProducerFactory<>(config);
  }

  @Bean
  public KafkaAdmin kafkaAdmin() {
    return new KafkaAdmin(Map.of("bootstrap.servers", System.getProperty("interop.brokers")));
  }

  @Bean
  public KafkaTemplate<byte[], byte[]> kafkaTemplate(ProducerFactory<byte[], byte[]> factory) {
    return new KafkaTemplate<>(factory);
  }

  @Bean
  public TaskScheduler taskScheduler() {
    return new ThreadPoolTaskScheduler();
  }

  @Bean
  public ConcurrentKafkaListenerContainerFactory<byte[], byte[]> recovering(
      ConsumerFactory<byte[], byte[]> consumers, KafkaTemplate<byte[], byte[]> template) {
    var factory = new ConcurrentKafkaListenerContainerFactory<byte[], byte[]>();
    factory.setConsumerFactory(consumers);
    factory.setCommonErrorHandler(
        new DefaultErrorHandler(new DeadLetterPublishingRecoverer(template), new FixedBackOff(10L, 2L)));
    factory.getContainerProperties().setDeliveryAttemptHeader(true);
    return factory;
  }

  @Bean
  public ConcurrentKafkaListenerContainerFactory<byte[], byte[]> retrying(ConsumerFactory<byte[], byte[]> consumers) {
    var factory = new ConcurrentKafkaListenerContainerFactory<byte[], byte[]>();
    factory.setConsumerFactory(consumers);
    return factory;
  }

  @Bean
  public Recovered recovered() {
    return new Recovered();
  }

  @Bean
  public Retried retried() {
    return new Retried();
  }

  static void handle(ConsumerRecord<byte[], byte[]> record) {
    if (record.value() == null || new String(record.value()).startsWith("poison")) {
      throw new IllegalStateException("no such account: 17");
    }
  }

  /** Its failures are published by DeadLetterPublishingRecoverer. */
  public static class Recovered {
    @KafkaListener(id = "recovered", topics = "${interop.recovered}", groupId = "${interop.group}", containerFactory = "recovering")
    public void listen(ConsumerRecord<byte[], byte[]> record) {
      handle(record);
    }
  }

  /** Its failures go through a retry topic. */
  public static class Retried {
    @RetryableTopic(attempts = "3", backoff = @Backoff(delay = 50), numPartitions = "1", replicationFactor = "1", kafkaTemplate = "kafkaTemplate", listenerContainerFactory = "retrying")
    @KafkaListener(id = "retried", topics = "${interop.retried}", groupId = "${interop.group}-retried", containerFactory = "retrying")
    public void listen(ConsumerRecord<byte[], byte[]> record) {
      handle(record);
    }
  }
}
