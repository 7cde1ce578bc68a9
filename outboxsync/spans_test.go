package outboxsync_test

import (
	"encoding/json"
	"log/slog"
	"strings"
	"testing"

	"go.opentelemetry.io/otel/attribute"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/postrider/postrider/internal/testenv/kafkatest"
	"github.com/postrider/postrider/internal/testenv/logtest"
	"github.com/postrider/postrider/internal/testenv/pgtest"
	"github.com/postrider/postrider/outboxsync"
)

// Each of the four actions has a span of its name with its figures, and a line in the log.
func TestReportsOfActions(t *testing.T) {
	t.Parallel()
	db, broker := pgtest.New(t), kafkatest.Kfake(t)
	topic := broker.Topic(t, 1, nil)
	if _, err := db.Pool(t).Exec(t.Context(), `insert into postrider.outbox_event (topic, key, payload) select $1, 'k', 'v' from generate_series(1, 3)`, topic); err != nil {
		t.Fatal(err)
	}
	spans := tracetest.NewSpanRecorder()
	var log logtest.Buffer
	o, err := outboxsync.Open(t.Context(), outboxsync.Config{DatabaseURL: db.URL, Brokers: broker.Addrs,
		TracerProvider: sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(spans)), Logger: slog.New(slog.NewJSONHandler(&log, nil))})
	if err != nil {
		t.Fatal(err)
	}
	defer o.Close()
	_, err1 := o.ProcessPending(t.Context(), outboxsync.Options{})
	_, err2 := o.ProcessRetries(t.Context(), outboxsync.Options{})
	_, err3 := o.Cleanup(t.Context(), outboxsync.CleanupOptions{})
	_, err4 := o.DLQStats(t.Context())
	for _, err := range []error{err1, err2, err3, err4} {
		if err != nil {
			t.Fatal(err)
		}
	}
	found := map[string]map[attribute.Key]attribute.Value{}
	for _, s := range spans.Ended() {
		found[s.Name()] = map[attribute.Key]attribute.Value{}
		for _, a := range s.Attributes() {
			found[s.Name()][a.Key] = a.Value
		}
	}
	lines := actionLines(t, log.String())
	for action, says := range map[string][]string{
		"processPending": {"batch_size", "processed", "succeeded", "failed", "dead_lettered"}, "processRetries": {"returned", "processed"},
		"cleanup": {"published", "dead_lettered", "idempotency_keys"}, "dlqStats": {"size", "oldest_age_ms", "error_codes"},
	} {
		if got := found["outbox."+action]; got["outbox.action"].AsString() != action || len(got) != 7 {
			t.Errorf("%s: %v", action, got)
		}
		if len(lines[action]) != 1 {
			t.Errorf("%s has the lines %v", action, lines[action])
			continue
		}
		for _, name := range append(says, "duration_ms") {
			if lines[action][0][name] == nil {
				t.Errorf("the line of %s says nothing of %s: %v", action, name, lines[action][0])
			}
		}
	}
	if got := lines["processPending"][0]; got["processed"] != 3.0 || got["succeeded"] != 3.0 || got["component"] != "relay" {
		t.Errorf("the line of processPending: %v", got)
	}
	if got := found["outbox.processPending"]; got["outbox.processed"].AsInt64() != 3 || got["outbox.succeeded"].AsInt64() != 3 || got["outbox.failed"].AsInt64() != 0 {
		t.Errorf("processPending: %v", got)
	}
	if found["outbox.batch"] == nil || found["outbox.settle"]["outbox.succeeded"].AsInt64() != 3 {
		t.Errorf("the batch of the action: %v", found["outbox.settle"])
	}
}

// actionLines are the lines about actions in a log of JSON, by action.
func actionLines(t *testing.T, log string) map[string][]map[string]any {
	t.Helper()
	lines := map[string][]map[string]any{}
	for text := range strings.Lines(log) {
		var line map[string]any
		if err := json.Unmarshal([]byte(text), &line); err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		if line["msg"] == "outbox action" {
			action, _ := line["action"].(string)
			lines[action] = append(lines[action], line)
		}
	}
	return lines
}
