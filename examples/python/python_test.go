package python

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/postrider/postrider/examples/stage"
)

func TestMain(m *testing.M) { stage.Main(m) }

// record is what read.py prints.
type record struct {
	Topic      string
	Partition  int32
	Offset     int64
	Key, Value any
	EventID    string         `json:"event_id"`
	CloudEvent map[string]any `json:"cloud_event"`
	DeadLetter map[string]any `json:"dead_letter"`
	Headers    [][2]any
}

const template = `
name: greeting
namespace_name: python
version: 1.0.0
events: {topic: %s}
steps: [{name: greet}]
`

// TestShop runs the programs that place orders and ship them.
func TestShop(t *testing.T) {
	t.Parallel()
	python := interpreter(t)
	program := func(name string) []string { return []string{python, name} }
	stage.RunShop(t, stage.Shop{
		Writers: []stage.Writer{{With: "psycopg", Program: program("write.py")}}, Consumer: program("consume.py"), Traps: program("traps.py"),
		Refused: map[string]string{"Jsonb": "ok", "JSON text": "ok", "Json": "42883", "Json with %s::jsonb": "ok", "insert": "ok",
			"insert with returning": "42501", "insert with a text as the key": "22P02"},
	})
}

// Python writes orders and reads what became of them: an event, a lifecycle event, and the dead letter of an order
// that is too large.
func TestPython(t *testing.T) {
	t.Parallel()
	python := interpreter(t)
	s := stage.New(t)
	orders, lifecycle := s.Broker.Topic(t, 2, nil), s.Broker.Topic(t, 2, nil)
	file := filepath.Join(t.TempDir(), "greeting.yaml")
	if err := os.WriteFile(file, fmt.Appendf(nil, template, lifecycle), 0o600); err != nil {
		t.Fatal(err)
	}
	s.Postrider("template", "apply", file)
	s.Serve()

	// Three orders: one small with headers, one that fails before its commit, one larger than a record may be.
	write := func(details string, args ...string) (string, error) {
		cmd := exec.CommandContext(t.Context(), python, append([]string{"write.py", orders}, args...)...)
		cmd.Env, cmd.Stdin = append(os.Environ(), "DATABASE_URL="+s.DB.URL), strings.NewReader(details)
		out, err := cmd.CombinedOutput()
		return string(out), err
	}
	place := func(details string, args ...string) (eventID string) {
		t.Helper()
		out, err := write(details, args...)
		var said struct {
			EventID string `json:"event_id"`
		}
		if err == nil {
			err = json.Unmarshal([]byte(out), &said)
		}
		if err != nil {
			t.Fatalf("write.py: %v: %s", err, out)
		}
		return said.EventID
	}
	const traceparent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	small := place("", "o-1", `{"article": "Tür", "quantity": 2}`, "--header", "traceparent="+traceparent, "--header", "n=1", "--header", "n=2")
	if out, err := write("", "o-2", `{}`, "--fail"); err == nil || !strings.Contains(out, "told to fail") {
		t.Errorf("the order that was to fail: %v\n%s", err, out)
	}
	large := place(`{"scan": "`+strings.Repeat("x", 1_100_000)+`"}`, "o-3", "-")
	var task string
	if err := s.Pool.QueryRow(t.Context(), `select postrider.create_task('python', 'greeting', '{"name": "Ann"}')::text`).Scan(&task); err != nil {
		t.Fatal(err)
	}

	read := func(topic string) record {
		t.Helper()
		out := s.Output([]string{"KAFKA_BROKERS=" + s.Brokers()}, python, "read.py", topic, "--group", "python-"+topic, "--count", "1")
		var r record
		if err := json.Unmarshal([]byte(out), &r); err != nil {
			t.Fatalf("read.py: %v: %s", err, out)
		}
		if r.Topic != topic || r.Offset != 0 {
			t.Errorf("record %d/%d of %s, want the first of %s", r.Partition, r.Offset, r.Topic, topic)
		}
		return r
	}

	got := read(orders)
	if got.Key != "o-1" || got.Value != `{"article": "Tür", "quantity": 2}` || got.EventID != small || got.CloudEvent != nil || got.DeadLetter != nil {
		t.Errorf("the order is %+v", got)
	}
	if want := [][2]any{{"traceparent", traceparent}, {"n", "1"}, {"n", "2"}, {"postrider-event-id", small}}; !slices.Equal(got.Headers, want) {
		t.Errorf("its headers are %v, want %v", got.Headers, want)
	}

	got = read(lifecycle)
	ce := got.CloudEvent
	if got.Key != task || got.EventID == "" || ce["id"] != got.EventID || ce["type"] != "postrider.task.created.v1" || ce["subject"] != task ||
		ce["specversion"] != "1.0" || ce["source"] != "/postrider/python/greeting" || got.DeadLetter != nil {
		t.Errorf("the lifecycle event is %+v", got)
	}

	got = read(s.DLQ)
	letter := got.DeadLetter
	if got.Key != "o-3" || got.EventID != large || letter["event-id"] != large || letter["error-code"] != "MESSAGE_TOO_LARGE" ||
		letter["error-class"] != "permanent" || letter["origin-topic"] != orders || letter["payload"] != "reference" || got.Value != nil {
		t.Errorf("the dead letter is %+v", got)
	}
	// What failed was neither written nor sent.
	var counts string
	if err := s.Pool.QueryRow(t.Context(), `select concat_ws(' ', (select count(*) from shop_order), (select count(*) from postrider.outbox_event where topic = $1))`, orders).Scan(&counts); err != nil || counts != "2 2" {
		t.Errorf("orders and events: %s, %v; want 2 2", counts, err)
	}
	if records := s.Broker.ReadAll(t, orders, 1); len(records) != 1 {
		t.Errorf("%d records, want the one small order", len(records))
	}
}
