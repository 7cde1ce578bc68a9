package debezium

import (
	"encoding/json"
	"strings"
	"testing"
)

// judgeOne returns the verdict on one knob.
func judgeOne(t *testing.T, p Properties, name string) Knob {
	t.Helper()
	c, err := p.Read()
	if err != nil {
		t.Fatal(err)
	}
	for _, k := range Judge(p, c, Ours{Compression: "none", MaxMessageBytes: 1048588}) {
		if k.Name == name {
			return k
		}
	}
	t.Fatalf("nothing is said of %s", name)
	return Knob{}
}

// TestPlainConnectorIsTheSame: nothing differs, every setting is judged, and no password is in it.
func TestPlainConnectorIsTheSame(t *testing.T) {
	t.Parallel()
	p := plain()
	c, err := p.Read()
	if err != nil {
		t.Fatal(err)
	}
	knobs := Judge(p, c, Ours{})
	seen := map[string]bool{}
	for _, k := range knobs {
		if k.Verdict != Same || k.Says == "" || k.Do != "" || seen[k.Name] {
			t.Errorf("%+v", k)
		}
		seen[k.Name] = true
	}
	for _, name := range append(p.names(), "transforms.outbox.route.by.field", "transforms.outbox.tracing.span.context.field", "header.converter", "slot.name", "errors.tolerance") {
		if !seen[name] && name != "name" && name != "connector.class" && name != "transforms" && name != "transforms.outbox.type" {
			t.Errorf("%s is not judged", name)
		}
	}
	if text, _ := json.Marshal(knobs); Worst(knobs) != Same || strings.Contains(string(text), "sentinel") {
		t.Errorf("%s", text)
	}
}

// TestKnobs has every knob that can be other than the same, with a value of each kind.
func TestKnobs(t *testing.T) {
	t.Parallel()
	const r, avro, json, text = "transforms.outbox.", "io.confluent.connect.avro.AvroConverter", "org.apache.kafka.connect.json.JsonConverter", "org.apache.kafka.connect.storage.StringConverter"
	for _, c := range []struct {
		name, value string
		more        []string
		want        Verdict
		says        string
	}{
		{r + "table.field.event.timestamp", "created_at", nil, Same, "timestamp"},
		{r + "table.field.event.schema.version", "version", nil, Same, "in no record"},
		{r + "table.field.event.schema.version", "version", []string{r + "table.fields.additional.placement", "type:envelope", "value.converter", json}, Refused, "version"},
		{r + "table.fields.additional.placement", "type:header:eventType,part:partition", nil, Same, "headers"},
		{r + "table.fields.additional.placement", "a:partition,b:partition", nil, Refused, "several"},
		{r + "table.fields.additional.placement", "a:header:postrider-x", nil, Refused, "postrider-x"},
		{r + "table.fields.additional.placement", "a:envelope", nil, Refused, "JsonConverter"},
		{r + "table.fields.additional.placement", "a:envelope", []string{"value.converter", json}, Same, ""},
		{r + "table.field.additional.missing", "ignore", nil, Same, "left out"},
		{r + "table.op.invalid.behavior", "fatal", nil, Differs, "update"},
		{r + "table.expand.json.payload", "true", []string{"value.converter", json}, Same, "as JSON"},
		{r + "table.expand.json.payload", "true", nil, Refused, "Struct"},
		{r + "table.json.payload.null.behavior", "optional_bytes", []string{r + "table.expand.json.payload", "true", "value.converter", json}, Same, "are sent"},
		{r + "table.json.payload.empty.array.behavior", "optional_string", []string{r + "table.expand.json.payload", "true", "value.converter", json}, Same, "are sent"},
		{r + "route.topic.regex", "(?!x).*", nil, Refused, "look-ahead"},
		{r + "route.topic.regex", "a|b", nil, Refused, "--topic-sql"}, {r + "route.topic.regex", "a{1,300}", nil, Refused, "counts to 255"},
		{r + "route.topic.replacement", "$7", nil, Refused, "$7"},
		{r + "route.tombstone.on.empty.payload", "true", nil, Same, "without value"},
		{r + "table.field.event.payload.id", "aggregateid", nil, Refused, "before 2"},
		{r + "predicate", "isOutbox", []string{"predicates", "isOutbox", "predicates.isOutbox.type", "T", "predicates.isOutbox.pattern", "p"}, Refused, "predicate"},
		{"transforms.unwrap.type", "io.debezium.transforms.ExtractNewRecordState", []string{"transforms", "outbox,unwrap", "transforms.unwrap.drop.tombstones", "false"}, Refused, "beside the event router"},
		{"transforms.part.type", "io.debezium.transforms.ByLogicalTableRouter", []string{"transforms", "part,outbox"}, Refused, "partitions"},
		{"key.converter", json, nil, Same, "schema"}, {"key.converter", json, []string{"key.converter.schemas.enable", "false"}, Same, "quotes"},
		{"key.converter", "org.apache.kafka.connect.converters.ByteArrayConverter", nil, Refused, "StringConverter"},
		{"key.converter", "", nil, Differs, "--worker"}, {"value.converter", "", nil, Differs, "--worker"},
		{"value.converter", avro, nil, Refused, "registers schemas"}, {"value.converter", "io.debezium.converters.CloudEventsConverter", nil, Refused, "CloudEvent"},
		{"value.converter", "io.debezium.converters.BinaryDataConverter", nil, Same, "bytes"}, {"value.converter", "com.example.OwnConverter", nil, Refused, "OwnConverter"},
		{"value.converter.decimal.format", "NUMERIC", []string{"value.converter", json}, Differs, "decimals"},
		{"value.converter.schema.registry.url", "http://u:sentinel@r", nil, NotLookedAt, ""},
		{"header.converter", json, nil, Refused, "SimpleHeaderConverter"}, {"header.converter", text, nil, Same, "texts"},
		{"table.include.list", "", nil, Differs, "name the outbox"}, {"table.include.list", "public.outbox,public.x", nil, Differs, "only the outbox"}, {"table.include.list", "public.*", nil, Differs, "only the outbox"},
		{"column.exclude.list", "public.outbox.payload", nil, Refused, "columns"}, {"column.mask.with.3.chars", "a", nil, Refused, "columns"}, {"column.truncate.to.9.chars", "a", nil, Refused, "columns"}, {"column.include.list", "a", nil, Refused, "columns"},
		{"skipped.operations", "u,d,t", nil, Same, "inserts"}, {"skipped.operations", "c", nil, Refused, "inserts"},
		{"snapshot.mode", "initial", nil, Same, "no_data"}, {"snapshot.mode", "always", nil, Differs, "again"},
		{"signal.data.collection", "public.signals", nil, Differs, "signals"},
		{"provide.transaction.metadata", "true", nil, Refused, "transaction"},
		{"plugin.name", "", nil, Differs, "pgoutput"}, {"plugin.name", "decoderbufs", nil, Differs, "pgoutput"},
		{"slot.drop.on.stop", "true", nil, Differs, "slot"},
		{"publication.autocreate.mode", "", nil, Differs, "FOR ALL TABLES"}, {"publication.autocreate.mode", "filtered", nil, Differs, "twice"}, {"publication.autocreate.mode", "no_tables", nil, Differs, "anew"},
		{"heartbeat.interval.ms", "", nil, Differs, "heartbeat.interval.ms to 1000"},
		{"heartbeat.action.query", "insert into sentinel", nil, Same, ""},
		{"flush.lsn.source", "false", nil, Differs, "confirm"}, {"lsn.flush.mode", "manual", nil, Differs, "confirm"},
		{"extended.headers.enabled", "", nil, Differs, "__debezium.context."},
		{"binary.handling.mode", "base64", nil, Refused, "bytea"},
		{"field.name.adjustment.mode", "avro", nil, Differs, "names"},
		{"converters", "isbn", nil, Refused, "values"}, {"custom.converters", "isbn", nil, Refused, "values"}, {"post.processors", "p", nil, Refused, "rows"},
		{"errors.tolerance", "all", nil, Differs, "nothing is lost"}, {"event.processing.failure.handling.mode", "warn", nil, Differs, "nothing is lost"}, {"errors.log.enable", "true", nil, Same, ""},
		{"exactly.once.support", "required", nil, Differs, "header id"},
		{"topic.creation.default.partitions", "3", nil, Differs, "topics"},
		{"producer.override.compression.type", "zstd", nil, Differs, "kafka.compression to zstd"}, {"producer.override.compression.type", "none", nil, Same, ""},
		{"producer.override.max.request.size", "2000000", nil, Differs, "kafka.max_message_bytes to 2000000"}, {"producer.override.max.request.size", "1000", nil, Same, ""},
		{"producer.override.partitioner.class", "org.apache.kafka.clients.producer.RoundRobinPartitioner", nil, Refused, "RoundRobin"},
		{"producer.override.interceptor.classes", "a.B", nil, Refused, "B"}, {"producer.override.bootstrap.servers", "b:1", nil, Differs, "kafka.brokers"},
		{"producer.override.sasl.jaas.config", "password=sentinel", nil, Same, "login"}, {"producer.override.own", "sentinel", nil, NotLookedAt, ""},
		{"my.own.setting", "sentinel", nil, NotLookedAt, ""}, {"database.sslpassword", "sentinel", nil, Same, ""},
	} {
		k := judgeOne(t, plain().with(append([]string{c.name, c.value}, c.more...)...), c.name)
		if k.Verdict != c.want || !strings.Contains(k.Says+" "+k.Do, c.says) || strings.Contains(k.Says+k.Do+k.Value, "sentinel") {
			t.Errorf("%s=%s: %+v", c.name, c.value, k)
		}
		if (k.Verdict == Refused) && k.Do == "" {
			t.Errorf("%s=%s is refused without a way out: %+v", c.name, c.value, k)
		}
	}
}

// TestEachRuleIsReached: no rule stands behind one that takes its knobs, and every one says something.
func TestEachRuleIsReached(t *testing.T) {
	t.Parallel()
	for prefix, rules := range map[string][]rule{"transforms.outbox.": routerRules, "": append(converterRules[:len(converterRules):len(converterRules)], connectorRules...)} {
		for _, r := range rules {
			name := prefix + strings.Replace(r.name, "*", "zzz", 1)
			if k := judgeOne(t, plain().with(name, "a:header"), name); k.Verdict == "" || k.Says == "" && k.Verdict != NotLookedAt {
				t.Errorf("%s: %+v", name, k)
			} else if strings.HasSuffix(r.name, "*") && k.Value != "" {
				t.Errorf("the value of %s is shown", name)
			}
		}
	}
}
