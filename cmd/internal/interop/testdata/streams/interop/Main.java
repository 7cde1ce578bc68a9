package interop;

import java.util.Properties;
import org.apache.kafka.common.errors.SerializationException;
import org.apache.kafka.common.serialization.Deserializer;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.errors.LogAndContinueExceptionHandler;
import org.apache.kafka.streams.errors.LogAndContinueProcessingExceptionHandler;
import org.apache.kafka.streams.kstream.Consumed;
import org.apache.kafka.streams.kstream.Produced;

/**
 * An application of Kafka Streams with a dead-letter topic (KIP-1034). It cannot read a value that begins with
 * "unreadable", and fails at one that begins with "poison". System properties name the brokers and topics.
 */
public class Main {

  static byte[] read(String topic, byte[] value) {
    if (value != null && new String(value).startsWith("unreadable")) {
      throw new SerializationException("no such schema: 4");
    }
    return value;
  }

  static byte[] handle(byte[] value) {
    if (value == null || new String(value).startsWith("poison")) {
      throw new IllegalStateException("no such account: 17");
    }
    return value;
  }

  public static void main(String[] args) throws Exception {
    Properties config = new Properties();
    config.put(StreamsConfig.APPLICATION_ID_CONFIG, System.getProperty("interop.topic"));
    config.put(StreamsConfig.BOOTSTRAP_SERVERS_CONFIG, System.getProperty("interop.brokers"));
    config.put(StreamsConfig.STATE_DIR_CONFIG, System.getProperty("interop.state"));
    config.put(StreamsConfig.ERRORS_DEAD_LETTER_QUEUE_TOPIC_NAME_CONFIG, System.getProperty("interop.topic") + "-dlq");
    config.put(StreamsConfig.DESERIALIZATION_EXCEPTION_HANDLER_CLASS_CONFIG, LogAndContinueExceptionHandler.class);
    config.put(StreamsConfig.PROCESSING_EXCEPTION_HANDLER_CLASS_CONFIG, LogAndContinueProcessingExceptionHandler.class);
    Deserializer<byte[]> reading = Main::read;
    var builder = new StreamsBuilder();
    builder.stream(System.getProperty("interop.topic"),
            Consumed.with(Serdes.ByteArray(), Serdes.serdeFrom(Serdes.ByteArray().serializer(), reading)))
        .mapValues(Main::handle)
        .to(System.getProperty("interop.topic") + "-out", Produced.with(Serdes.ByteArray(), Serdes.ByteArray()));
    var streams = new KafkaStreams(builder.build(), config);
    Runtime.getRuntime().addShutdownHook(new Thread(streams::close));
    streams.start();
    Thread.currentThread().join();
  }
}
