import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import io.debezium.data.Envelope;
import io.debezium.transforms.outbox.EventRouter;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.time.Instant;
import java.util.Base64;
import java.util.HashMap;
import java.util.Map;
import org.apache.kafka.connect.data.Schema;
import org.apache.kafka.connect.data.SchemaAndValue;
import org.apache.kafka.connect.data.SchemaBuilder;
import org.apache.kafka.connect.data.Struct;
import org.apache.kafka.connect.json.JsonConverter;
import org.apache.kafka.connect.source.SourceRecord;
import org.apache.kafka.connect.storage.Converter;
import org.apache.kafka.connect.storage.SimpleHeaderConverter;

/**
 * Sends rows through Debezium's event router and Kafka's converters. Each line of the input is a case in JSON: the router's
 * settings, the converters, and the row as the JSON of a record with its schema. The first line of the output has the
 * version of Java. Each other line is what the record has, its bytes in base64, or the error.
 */
public class Router {
    static final ObjectMapper JSON = new ObjectMapper();
    static final Map<String, EventRouter<SourceRecord>> ROUTERS = new HashMap<>();
    static final Map<String, Converter> CONVERTERS = new HashMap<>();
    static final SimpleHeaderConverter HEADERS = new SimpleHeaderConverter();
    static final Schema SOURCE = SchemaBuilder.struct().name("source").field("ts_ms", Schema.INT64_SCHEMA).field("connector", Schema.STRING_SCHEMA).build();

    @SuppressWarnings("unchecked")
    static Map<String, String> settings(JsonNode node) {
        return JSON.convertValue(node, Map.class);
    }

    static Converter converter(JsonNode c, boolean key) throws Exception {
        String name = key + c.toString();
        Converter known = CONVERTERS.get(name);
        if (known == null) {
            known = (Converter) Class.forName(c.get("class").asText()).getDeclaredConstructor().newInstance();
            known.configure(settings(c.get("settings")), key);
            CONVERTERS.put(name, known);
        }
        return known;
    }

    static String base64(byte[] bytes) {
        return bytes == null ? null : Base64.getEncoder().encodeToString(bytes);
    }

    static ObjectNode route(JsonNode c) throws Exception {
        JsonConverter rows = new JsonConverter();
        rows.configure(Map.of("schemas.enable", "true"), false);
        SchemaAndValue row = rows.toConnectData("", JSON.writeValueAsBytes(c.get("row")));
        Envelope envelope = Envelope.defineSchema().withName("srv.public.outbox.Envelope").withRecord(row.schema()).withSource(SOURCE).build();
        Struct source = new Struct(SOURCE).put("ts_ms", 1L).put("connector", "postgresql");
        Struct value = envelope.create((Struct) row.value(), source, Instant.ofEpochMilli(1700000000000L));
        EventRouter<SourceRecord> router = ROUTERS.get(c.get("router").toString());
        if (router == null) {
            router = new EventRouter<>();
            router.configure(settings(c.get("router")));
            ROUTERS.put(c.get("router").toString(), router);
        }
        SourceRecord r = router.apply(new SourceRecord(Map.of("server", "s"), Map.of("lsn", 1L), "srv.public.outbox", null, null, null, envelope.schema(), value));
        ObjectNode out = JSON.createObjectNode();
        out.put("topic", r.topic());
        out.put("partition", r.kafkaPartition());
        out.put("timestamp", r.timestamp());
        out.put("key", base64(converter(c.get("key"), true).fromConnectData(r.topic(), r.keySchema(), r.key())));
        out.put("value", base64(converter(c.get("value"), false).fromConnectData(r.topic(), r.valueSchema(), r.value())));
        ArrayNode headers = out.putArray("headers");
        r.headers().forEach(h -> headers.addArray().add(h.key()).add(base64(HEADERS.fromConnectHeader(r.topic(), h.key(), h.schema(), h.value()))));
        return out;
    }

    public static void main(String[] args) throws Exception {
        HEADERS.configure(Map.of());
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        PrintStream out = new PrintStream(System.out, false, StandardCharsets.UTF_8);
        out.println(JSON.writeValueAsString(Map.of("java", Runtime.version().feature())));
        out.flush();
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            ObjectNode answer;
            try {
                answer = route(JSON.readTree(line));
            } catch (Throwable t) {
                answer = JSON.createObjectNode().put("error", t.toString());
            }
            out.println(JSON.writeValueAsString(answer));
            out.flush();
        }
    }
}
