package dlq_test

import (
	"context"
	"encoding/json"
	"testing"

	"go.opentelemetry.io/otel/codes"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"

	"github.com/postrider/postrider/internal/dlq"
	"github.com/postrider/postrider/internal/dlq/dlqtest"
	"github.com/postrider/postrider/message"
)

const aTrace = "0af7651916cd43dd8448eb211c80319c"

func tracedLetter(n int, traceparent string) dlq.Record {
	r := dlqtest.Event(n, 1)
	r.Headers = append([]message.Header{{Name: "traceparent", Value: []byte(traceparent)}}, r.Headers...)
	return r
}

// underStore notes the span in which it is called.
type underStore struct {
	dlq.Letters
	span trace.SpanContext
}

func (s *underStore) RecordLetters(ctx context.Context, letters []dlq.Letter) (dlq.Recorded, error) {
	s.span = trace.SpanContextFromContext(ctx)
	return s.Letters.RecordLetters(ctx, letters)
}

// The collector ends the traces of letters that are recorded, and leaves the others alone.
func TestSpansOfLetters(t *testing.T) {
	t.Parallel()
	spans := tracetest.NewSpanRecorder()
	r := newRoom(t, tracedLetter(1, "00-"+aTrace+"-b7ad6b7169203331-01"), tracedLetter(2, "00-"+aTrace+"-b7ad6b7169203331-00"), tracedLetter(3, "\xff"), dlqtest.Event(4, 1))
	store := &underStore{Letters: r.store}
	c, err := dlq.NewCollector(dlq.Config{Source: r.source, Letters: store, TracerProvider: sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(spans))})
	if err != nil {
		t.Fatal(err)
	}
	r.collector = c
	if err := r.runOnce(4); err != nil {
		t.Error(err)
	}
	ended := spans.Ended()
	if len(ended) != 1 || ended[0].Name() != "dlq.open" || ended[0].Parent().SpanID().String() != "b7ad6b7169203331" || ended[0].Status().Code == codes.Error {
		t.Fatalf("spans %v", ended)
	}
	if store.span.SpanID() != ended[0].SpanContext().SpanID() {
		t.Errorf("what the database is asked for is under %v", store.span)
	}
	for _, a := range ended[0].Attributes() {
		if a.Key == "dlq.opened" && a.Value.AsInt64() != 4 || a.Key == "dlq.letter_id" && a.Value.AsString() != "event:"+dlqtest.EventID(1).String()+":1" {
			t.Errorf("%s is %v", a.Key, a.Value)
		}
	}
}

// The snapshot names the trace, unless its header is hidden or cannot be read.
func TestTraceOfAnInvestigation(t *testing.T) {
	t.Parallel()
	hidden, err := dlq.NewRedactor(dlq.RedactionRules{Headers: []string{"trace*"}})
	if err != nil {
		t.Fatal(err)
	}
	traced, broken := dlq.Decode(tracedLetter(1, "00-"+aTrace+"-b7ad6b7169203331-00")), dlq.Decode(tracedLetter(1, "hostile"))
	for name, c := range map[string]struct {
		snapshot json.RawMessage
		want     string
	}{
		"traced": {dlq.Snapshot(traced), aTrace}, "hidden": {hidden.Snapshot(traced), ""}, "broken": {dlq.Snapshot(broken), ""},
		"none": {nil, ""}, "of a task": {json.RawMessage(`{"trace_id": "\u001b[31m"}`), ""}, "of another type": {json.RawMessage(`{"trace_id": 7}`), ""},
	} {
		if got := (&dlq.Entry{Snapshot: c.snapshot}).TraceID(); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}
