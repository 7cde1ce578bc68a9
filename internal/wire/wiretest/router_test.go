package wiretest

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/postrider/postrider/internal/testenv/kafkajars"
	"github.com/postrider/postrider/internal/testenv/logtest"
	"github.com/postrider/postrider/internal/wire"
)

// patience bounds what a test waits for; it passes long before. Maven may download for some of it.
const patience = 4 * time.Minute

// router is the real event router in a Java program, which answers one row after the other.
type router struct {
	in   *json.Encoder
	out  *bufio.Reader
	java int
	said bytes.Buffer
}

// startRouter starts the program, which ends with the test. Without Java or Maven the test is left out.
func startRouter(t *testing.T) *router {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	t.Cleanup(cancel)
	pom, err := os.ReadFile(filepath.Join("testdata", "pom.xml"))
	if err != nil {
		t.Fatal(err)
	}
	classpath, err := kafkajars.Classpath(ctx, pom, kafkajars.DefaultVersion, os.Stderr)
	if errors.Is(err, kafkajars.ErrUnavailable) {
		logtest.NotTested(t, "Java or Maven is missing: "+err.Error())
	}
	if err != nil {
		t.Fatal(err)
	}
	java := "java"
	if home := os.Getenv("JAVA_HOME"); home != "" {
		java = filepath.Join(home, "bin", "java")
	}
	if _, err := exec.LookPath(java); err != nil {
		logtest.NotTested(t, "Java or Maven is missing: "+err.Error())
	}
	cmd := exec.CommandContext(ctx, java, "-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-cp", classpath, filepath.Join("testdata", "Router.java"))
	r := &router{}
	cmd.Stderr = &r.said
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = in.Close() // which ends it
		_ = cmd.Wait()
	})
	r.in, r.out = json.NewEncoder(in), bufio.NewReader(out)
	r.in.SetEscapeHTML(false)
	var hello struct{ Java int }
	line, err := r.out.ReadBytes('\n')
	if err == nil {
		err = json.Unmarshal(line, &hello)
	}
	if err != nil {
		t.Fatalf("the router does not start: %v\n%s%s", err, line, r.said.String())
	}
	r.java = hello.Java
	return r
}

// column is a further column of the row, and where the router puts it.
type column struct {
	name, alias, placement string
	// schema is that of Kafka Connect, value its JSON.
	schema, value string
	// text is what the forwarding trigger writes of it: text, or for the envelope JSON.
	text *string
}

// row is a row of the outbox table.
type row struct {
	key, payload *string
	// payloadJSON is the payload as Connect's JSON has it; empty for text.
	payloadJSON string
	keyJSON     string
	columns     []column
	// settings of the router beside what the rule says.
	settings map[string]string
}

const (
	rowID    = "da8d6de6-3b77-45ff-8f44-57db55a7a06c"
	rowRoute = "Order"
)

// answer is what the router sends.
type answer struct {
	Error     string
	Topic     string
	Partition *int32
	Timestamp *int64
	Key       []byte
	Value     []byte
	Headers   [][2]any
}

// converters are the classes of Kafka Connect.
var converters = map[wire.Converter]map[string]any{
	wire.String:          {"class": "org.apache.kafka.connect.storage.StringConverter", "settings": map[string]string{}},
	wire.JSON:            {"class": "org.apache.kafka.connect.json.JsonConverter", "settings": map[string]string{"schemas.enable": "false"}},
	wire.JSONWithSchemas: {"class": "org.apache.kafka.connect.json.JsonConverter", "settings": map[string]string{"schemas.enable": "true"}},
	wire.Bytes:           {"class": "org.apache.kafka.connect.converters.ByteArrayConverter", "settings": map[string]string{}},
}

// binaryData is Debezium's converter in the place of Kafka's for bytes.
var binaryData = map[string]any{"class": "io.debezium.converters.BinaryDataConverter", "settings": map[string]string{}}

// schemaOf is the schema of a type, with its field's name.
func schemaOf(schema, name string) json.RawMessage {
	return json.RawMessage(fmt.Sprintf(`%s,"field":%s}`, strings.TrimSuffix(schema, "}"), quoted(name)))
}

func quoted(s string) string {
	text, _ := json.Marshal(s) // a string cannot fail
	return string(text)
}

func textJSON(s *string) json.RawMessage {
	if s == nil {
		return json.RawMessage("null")
	}
	return json.RawMessage(quoted(*s))
}

// settings are the router's for a rule and a row.
func settings(rule *wire.Rule, w row) map[string]string {
	s := map[string]string{}
	set := func(use bool, name, value string) {
		if use {
			s[name] = value
		}
	}
	set(rule.Expand, "table.expand.json.payload", "true")
	set(rule.NullFields == wire.OptionalBytes, "table.json.payload.null.behavior", "optional_bytes")
	set(rule.EmptyArrays == wire.OptionalString, "table.json.payload.empty.array.behavior", "optional_string")
	set(rule.Tombstones, "route.tombstone.on.empty.payload", "true")
	var placements []string
	for _, c := range w.columns {
		if c.placement == "timestamp" {
			s["table.field.event.timestamp"] = c.name
			continue
		}
		placements = append(placements, strings.TrimSuffix(c.name+":"+c.placement+":"+c.alias, ":"))
	}
	set(len(placements) > 0, "table.fields.additional.placement", strings.Join(placements, ","))
	for name, value := range w.settings {
		s[name] = value
	}
	return s
}

// send sends a row through the router with the converters of a rule.
func (r *router) send(t fataler, rule *wire.Rule, w row, value map[string]any) answer {
	t.Helper()
	const text = `{"type":"string","optional":false}`
	payload, key := textJSON(w.payload), textJSON(w.key)
	if w.payloadJSON != "" {
		payload = json.RawMessage(w.payloadJSON)
	}
	if w.keyJSON != "" {
		key = json.RawMessage(w.keyJSON)
	}
	fields := []json.RawMessage{
		schemaOf(`{"type":"string","optional":false,"name":"io.debezium.data.Uuid","version":1}`, "id"), schemaOf(text, "aggregatetype"),
		schemaOf(rule.KeyType.Schema(), "aggregateid"), schemaOf(text, "type"), schemaOf(rule.ValueType.Schema(), "payload"),
	}
	values := map[string]json.RawMessage{"id": json.RawMessage(quoted(rowID)), "aggregatetype": json.RawMessage(quoted(rowRoute)),
		"aggregateid": key, "type": json.RawMessage(`"OrderCreated"`), "payload": payload}
	for _, c := range w.columns {
		fields = append(fields, schemaOf(c.schema, c.name))
		values[c.name] = json.RawMessage(c.value)
	}
	if value == nil {
		value = converters[rule.Value]
	}
	question := map[string]any{"router": settings(rule, w), "key": converters[rule.Key], "value": value, "row": map[string]any{
		"schema":  map[string]any{"type": "struct", "name": "srv.public.outbox.Value", "optional": true, "fields": fields},
		"payload": values,
	}}
	if err := r.in.Encode(question); err != nil {
		t.Fatalf("ask the router: %v\n%s", err, r.said.String())
	}
	line, err := r.out.ReadBytes('\n')
	var a answer
	if err == nil {
		err = json.Unmarshal(line, &a)
	}
	if err != nil {
		t.Fatalf("read the router's answer: %v\n%s%s", err, line, r.said.String())
	}
	return a
}

// fataler is a test, or a case of a property.
type fataler interface {
	Helper()
	Fatalf(format string, args ...any)
	Errorf(format string, args ...any)
}
