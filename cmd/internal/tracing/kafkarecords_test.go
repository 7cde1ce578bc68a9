package tracing

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"go.opentelemetry.io/otel/codes"

	"github.com/postrider/postrider/internal/testenv/kafkatest"
)

const (
	aTrace  = "0af7651916cd43dd8448eb211c80319c"
	writers = "00-" + aTrace + "-b7ad6b7169203331-01"
)

// Records of a recorded trace have spans under their writers', all others have none, and no header changes.
func TestKafkaRecords(t *testing.T) {
	t.Parallel()
	b := kafkatest.Kfake(t)
	topic := b.Topic(t, 1, nil)
	p, spans := recording(t)
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	ctx, caller := p.Tracer("test").Start(ctx, "caller") // a producer may have a span of its own, which the client must not end
	header := func(pairs ...string) (hs []kgo.RecordHeader) {
		for i := 0; i < len(pairs); i += 2 {
			hs = append(hs, kgo.RecordHeader{Key: pairs[i], Value: []byte(pairs[i+1])})
		}
		return hs
	}
	all := [][]kgo.RecordHeader{
		header("a", "1", "traceparent", writers, "tracestate", "x=y", "b", sentinel), nil, header("traceparent", writers[:len(writers)-1]+"0"),
		header("traceparent", writers, "traceparent", writers), header("traceparent", sentinel), header("Traceparent", writers),
	}
	var sent []*kgo.Record
	for _, hs := range all {
		sent = append(sent, &kgo.Record{Topic: topic, Key: []byte("key-" + sentinel), Value: []byte("value-" + sentinel), Headers: hs})
	}
	writer := b.Client(t, KafkaRecords(p, "me", ""))
	if err := writer.ProduceSync(ctx, sent...).FirstErr(); err != nil {
		t.Fatal(err)
	}
	for i, r := range b.ReadAll(t, topic, len(all)) {
		if got, want := fmt.Sprintf("%q", r.Headers), fmt.Sprintf("%q", all[i]); got != want {
			t.Errorf("record %d has the headers %s, want %s", i, got, want)
		}
	}
	reader := b.Client(t, KafkaRecords(p, "me", "readers"), kgo.ConsumeTopics(topic), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	for n := 0; n < len(all); {
		fetches := reader.PollFetches(ctx)
		if err := fetches.Err(); err != nil {
			t.Fatal(err)
		}
		n += fetches.NumRecords()
	}
	// One that the client itself refuses.
	large := &kgo.Record{Topic: topic, Value: make([]byte, 2<<20), Headers: header("traceparent", writers)}
	if err := writer.ProduceSync(ctx, large).FirstErr(); !errors.Is(err, kerr.MessageTooLarge) {
		t.Fatalf("a large record: %v", err)
	}
	if !caller.IsRecording() {
		t.Error("the caller's span was ended")
	}
	ended := spans.Ended()
	if len(ended) != 3 || len(spans.Started()) != 4 {
		t.Fatalf("%d spans of %d ended", len(ended), len(spans.Started()))
	}
	for i, want := range []string{" publish", " receive", " publish"} {
		s := ended[i]
		said := allOf(s)
		if s.Name() != topic+want || s.SpanContext().TraceID().String() != aTrace || s.Parent().SpanID().String() != "b7ad6b7169203331" || s.SpanContext().TraceState().String() != map[int]string{0: "x=y", 1: "x=y"}[i] {
			t.Errorf("span %d is %s under %v", i, said, s.Parent())
		}
		if failed := s.Status().Code == codes.Error; failed != (i == 2) || strings.Contains(said, sentinel) {
			t.Errorf("span %d says %s", i, said)
		}
		for _, says := range [][]string{
			{"messaging.kafka.destination.partition=0", "messaging.kafka.message.offset=0", "messaging.kafka.client_id=me"},
			{"messaging.kafka.source.partition=0", "messaging.kafka.message.offset=0", "messaging.kafka.consumer.group=readers"}, {"MESSAGE_TOO_LARGE"},
		}[i] {
			if !strings.Contains(said, says) {
				t.Errorf("span %d does not say %s: %s", i, says, said)
			}
		}
	}
}
