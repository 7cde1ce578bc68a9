package outboxsync_test

import (
	"testing"

	"go.opentelemetry.io/otel/attribute"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/postrider/postrider/migrations/pgtest"
	"github.com/postrider/postrider/relay"
	"github.com/postrider/postrider/relay/kafka"
	"github.com/postrider/postrider/relay/kafka/kafkatest"
	"github.com/postrider/postrider/relay/outboxsync"
)

// Each of the four actions has a span of its name with its figures.
func TestSpansOfActions(t *testing.T) {
	t.Parallel()
	db, broker := pgtest.New(t), kafkatest.Kfake(t)
	topic := broker.Topic(t, 1, nil)
	if _, err := db.Pool(t).Exec(t.Context(), `insert into postrider.outbox_event (topic, key, payload) select $1, 'k', 'v' from generate_series(1, 3)`, topic); err != nil {
		t.Fatal(err)
	}
	spans := tracetest.NewSpanRecorder()
	o, err := outboxsync.Open(t.Context(), outboxsync.Config{DatabaseURL: db.URL, Kafka: kafka.Config{Brokers: broker.Addrs},
		Relay: relay.Config{TracerProvider: sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(spans))}})
	if err != nil {
		t.Fatal(err)
	}
	defer o.Close()
	_, err1 := o.ProcessPending(t.Context(), relay.ActionOptions{})
	_, err2 := o.ProcessRetries(t.Context(), relay.ActionOptions{})
	_, err3 := o.Cleanup(t.Context(), relay.CleanupOptions{})
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
	for _, action := range []string{"processPending", "processRetries", "cleanup", "dlqStats"} {
		if got := found["outbox."+action]; got["outbox.action"].AsString() != action || len(got) != 7 {
			t.Errorf("%s: %v", action, got)
		}
	}
	if got := found["outbox.processPending"]; got["outbox.processed"].AsInt64() != 3 || got["outbox.succeeded"].AsInt64() != 3 || got["outbox.failed"].AsInt64() != 0 {
		t.Errorf("processPending: %v", got)
	}
	if found["outbox.batch"] == nil || found["outbox.settle"]["outbox.succeeded"].AsInt64() != 3 {
		t.Errorf("the batch of the action: %v", found["outbox.settle"])
	}
}
