package shop;

import java.nio.charset.StandardCharsets;
import java.security.MessageDigest;
import java.security.NoSuchAlgorithmException;
import java.time.DateTimeException;
import java.time.Duration;
import java.time.Instant;
import java.util.HexFormat;
import java.util.Set;
import java.util.regex.Pattern;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.header.Headers;
import org.apache.kafka.common.header.internals.RecordHeaders;

/**
 * What a consumer does with the headers of Postrider: it knows a message by one id, goes on with the attempts of a message in
 * a retry topic, and writes messages that failed to retry topics and to the dead-letter topic. The rules are in
 * docs/reading.md, "Retry topics in another language".
 */
final class Retry {

  /** An error that is about the message. Any other error is about the database or Kafka, and spends no attempt. */
  static final class Refused extends Exception {
    final String code;
    final boolean permanent;

    Refused(String code, String message, boolean permanent) {
      super(message);
      this.code = code;
      this.permanent = permanent;
    }
  }

  /** Where a message was read first, before any retry topic. The timestamp is in milliseconds since 1970; 0 for none. */
  record Place(String topic, int partition, long offset, long timestamp, String type) {}

  /** What earlier attempts left in the headers. A message that is due at null is tried at once. */
  record Past(int failed, String firstFailedAt, Instant due, Place origin) {}

  // These headers begin as ours do, and belong to the message all the same.
  private static final Set<String> MESSAGES_OWN =
      Set.of("postrider-event-id", "postrider-hops", "postrider-redrive-of", "postrider-redrive-for", "postrider-source");

  private static final Pattern NUMBER = Pattern.compile("\\d{1,9}");
  private static final Pattern OFFSET = Pattern.compile("\\d{1,18}");
  private static final Pattern EVENT = Pattern.compile("event:[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}");
  private static final Pattern REPLAY_ORIGIN = Pattern.compile("([^/]+)/(\\d{1,9})/(\\d{1,18})(?:@(\\d{1,18}))?(?:#(.*))?", Pattern.DOTALL);

  /** What is known of earlier attempts of this group. The notes of another group count for nothing. */
  static Past past(ConsumerRecord<byte[], byte[]> record, String group) {
    Headers headers = record.headers();
    String attempts = text(headers, "postrider-attempts");
    Place here = new Place(record.topic(), record.partition(), record.offset(), record.timestamp(), record.timestampType().name);
    if (text(headers, "postrider-consumer-group").equals(group) && NUMBER.matcher(attempts).matches()) {
      Instant read = instant(text(headers, "postrider-origin-timestamp"));
      String topic = text(headers, "postrider-origin-topic");
      String partition = text(headers, "postrider-origin-partition");
      String offset = text(headers, "postrider-origin-offset");
      boolean whole = !topic.isEmpty() && NUMBER.matcher(partition).matches() && OFFSET.matcher(offset).matches();
      Place origin =
          whole
              ? new Place(topic, Integer.parseInt(partition), Long.parseLong(offset), read == null ? 0 : read.toEpochMilli(), text(headers, "postrider-origin-timestamp-type"))
              : here;
      return new Past(Integer.parseInt(attempts), text(headers, "postrider-first-failed-at"), instant(text(headers, "postrider-retry-due")), origin);
    }
    Place origin = here;
    // A message that was redriven to this group says where it was read first.
    var replay = REPLAY_ORIGIN.matcher(text(headers, "replay_origin"));
    if (replay.matches() && (replay.group(5) == null || replay.group(5).equals(group))) {
      origin = new Place(replay.group(1), Integer.parseInt(replay.group(2)), Long.parseLong(replay.group(3)), replay.group(4) == null ? 0 : Long.parseLong(replay.group(4)), "");
    }
    return new Past(0, "", null, origin);
  }

  /** The id by which the inbox knows a message, however often it is sent. */
  static String messageId(ConsumerRecord<byte[], byte[]> record, Past past) {
    String id = text(record.headers(), "postrider-redrive-of");
    String event = text(record.headers(), "postrider-event-id");
    if (!EVENT.matcher(id).matches() && !(id.startsWith("record:") && id.length() > 7 && id.getBytes(StandardCharsets.UTF_8).length <= 512)) {
      id = ""; // none that Postrider writes
    }
    if (id.isEmpty() && !event.isEmpty()) {
      id = "event:" + event;
    }
    if (id.isEmpty()) {
      Place o = past.origin();
      id = "record:" + o.topic() + "/" + o.partition() + "/" + o.offset() + (o.timestamp() > 0 ? "@" + o.timestamp() : "");
    }
    byte[] bytes = id.getBytes(StandardCharsets.UTF_8);
    return bytes.length > 200 ? "sha256:" + HexFormat.of().formatHex(sha256(bytes)) : id;
  }

  /** The headers of a message that failed once more: those of a retry topic if it is due again, else those of a dead letter. */
  static Headers failed(ConsumerRecord<byte[], byte[]> record, Past past, String group, Refused error, String retryTopic, Instant due) {
    Headers headers = new RecordHeaders();
    for (Header h : record.headers()) {
      if (!h.key().startsWith("postrider-") || MESSAGES_OWN.contains(h.key())) {
        headers.add(h);
      }
    }
    String now = Instant.now().toString();
    Place origin = past.origin();
    set(headers, "consumer-group", group);
    set(headers, "origin-topic", origin.topic());
    set(headers, "origin-partition", origin.partition());
    set(headers, "origin-offset", origin.offset());
    if (origin.timestamp() > 0) {
      set(headers, "origin-timestamp", Instant.ofEpochMilli(origin.timestamp()));
      set(headers, "origin-timestamp-type", origin.type().isEmpty() ? "CreateTime" : origin.type());
    }
    set(headers, "attempts", past.failed() + 1);
    set(headers, "first-failed-at", past.firstFailedAt().isEmpty() ? now : past.firstFailedAt());
    set(headers, "last-failed-at", now);
    set(headers, "error-class", error.permanent ? "permanent" : "record");
    set(headers, "error-code", error.code);
    String message = error.getMessage();
    set(headers, "error-message", message.substring(0, Math.min(512, message.length())));
    if (due != null) {
      set(headers, "retry-due", due);
      return headers;
    }
    set(headers, "letter-version", 1);
    set(headers, "retry-topic", retryTopic);
    if (!record.topic().equals(origin.topic())) {
      set(headers, "last-topic", record.topic());
      set(headers, "last-partition", record.partition());
      set(headers, "last-offset", record.offset());
    }
    return headers;
  }

  /** A delay as the name of a retry topic has it: 500ms, 10s, 2m or 1h. */
  static Duration delay(String text) {
    var m = Pattern.compile("(\\d{1,9})(ms|s|m|h)").matcher(text);
    if (!m.matches()) {
      throw new IllegalArgumentException("RETRY_DELAYS has " + text + ": write delays as 500ms, 10s, 2m or 1h");
    }
    long n = Long.parseLong(m.group(1));
    return switch (m.group(2)) {
      case "ms" -> Duration.ofMillis(n);
      case "s" -> Duration.ofSeconds(n);
      case "m" -> Duration.ofMinutes(n);
      default -> Duration.ofHours(n);
    };
  }

  /** The first value of a header, as text; empty where there is none. */
  private static String text(Headers headers, String name) {
    for (Header h : headers.headers(name)) {
      return h.value() == null ? "" : new String(h.value(), StandardCharsets.UTF_8);
    }
    return "";
  }

  private static void set(Headers headers, String name, Object value) {
    headers.add("postrider-" + name, value.toString().getBytes(StandardCharsets.UTF_8));
  }

  private static Instant instant(String text) {
    try {
      return text.isEmpty() ? null : Instant.parse(text);
    } catch (DateTimeException e) {
      return null;
    }
  }

  private static byte[] sha256(byte[] bytes) {
    try {
      return MessageDigest.getInstance("SHA-256").digest(bytes);
    } catch (NoSuchAlgorithmException e) {
      throw new IllegalStateException(e); // every Java has it
    }
  }

  private Retry() {}
}
