package consumer

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.opentelemetry.io/otel/codes"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"

	"github.com/postrider/postrider/internal/tracecontext"
	"github.com/postrider/postrider/message"
)

const writersTraceparent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"

func traced(r Record, traceparent string) Record {
	r.Headers = []message.Header{{Name: "traceparent", Value: []byte(traceparent)}}
	return r
}

// A message that fails to its end leaves one chain: each attempt under the record that it read, each record under the
// attempt that wrote it.
func TestSpansThroughTiersToTheDeadLetter(t *testing.T) {
	t.Parallel()
	for _, concurrency := range []int{0, 2} {
		synctest.Test(t, func(t *testing.T) {
			spans := tracetest.NewSpanRecorder()
			f := newFake(map[string]int{"orders": 1})
			f.write(traced(rec("orders", "k", "bad"), writersTraceparent))
			var inHandler []trace.SpanContext
			s := &script{do: func(ctx context.Context, _ *Message) error {
				inHandler = append(inHandler, trace.SpanContextFromContext(ctx))
				return errBroken
			}}
			_, stop := run(t, f, Config{Concurrency: concurrency, Policy: Policy{Delays: []time.Duration{time.Second}},
				TracerProvider: sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(spans))}, s)
			time.Sleep(time.Minute)
			if err := stop(); err != nil {
				t.Error(err)
			}
			parent := "b7ad6b7169203331"
			names := []string{"process orders", "publish orders.g.retry.1s", "process orders.g.retry.1s", "publish postrider.consumer.dlq"}
			if got := spans.Ended(); len(got) != len(names) || len(spans.Started()) != len(names) {
				t.Fatalf("%d spans began and %d ended, want %d", len(spans.Started()), len(got), len(names))
			}
			for i, span := range spans.Ended() {
				if span.Name() != names[i] || span.Parent().SpanID().String() != parent || span.SpanContext().TraceID().String() != "0af7651916cd43dd8448eb211c80319c" {
					t.Errorf("span %d is %s under %v of trace %v, want %s under %s", i, span.Name(), span.Parent().SpanID(), span.SpanContext().TraceID(), names[i], parent)
				}
				if process := i%2 == 0; process != (span.Status().Code == codes.Error) || process && inHandler[i/2].SpanID() != span.SpanContext().SpanID() {
					t.Errorf("span %d has the status %+v", i, span.Status())
				}
				parent = span.SpanContext().SpanID().String()
			}
			letter := f.records("postrider.consumer.dlq")[0]
			if got := header(letter.Headers, "traceparent"); got != "00-0af7651916cd43dd8448eb211c80319c-"+parent+"-01" {
				t.Errorf("the letter's traceparent is %s", got)
			}
		})
	}
}

// A message without a trace begins one, which its retries go on with; a trace that cannot be read goes through
// untouched.
func TestSpansWithoutAWriter(t *testing.T) {
	t.Parallel()
	for name, given := range map[string]Record{
		"none": rec("orders", "", "x"), "hostile": traced(rec("orders", "", "x"), "\xff\x00hostile"), "huge": traced(rec("orders", "", "x"), strings.Repeat("0", 100_000)),
		"not recorded": traced(rec("orders", "", "x"), strings.TrimSuffix(writersTraceparent, "1")+"0"),
	} {
		synctest.Test(t, func(t *testing.T) {
			spans := tracetest.NewSpanRecorder()
			f := newFake(map[string]int{"orders": 1})
			f.write(given)
			s := &script{do: func(context.Context, *Message) error { return Permanent(errBroken) }}
			_, stop := run(t, f, Config{TracerProvider: sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(spans))}, s)
			time.Sleep(time.Minute)
			if err := stop(); err != nil {
				t.Error(err)
			}
			letters := f.records("postrider.consumer.dlq")
			if len(letters) != 1 {
				t.Fatalf("%s: %d letters", name, len(letters))
			}
			got := header(letters[0].Headers, "traceparent")
			if name != "none" {
				if want := header(given.Headers, "traceparent"); got != want {
					t.Errorf("%s: the traceparent became %.100q", name, got)
				}
				return
			}
			ended := spans.Ended()
			if len(ended) != 2 || got != string(tracecontext.Format(ended[1].SpanContext())) || ended[1].Parent().SpanID() != ended[0].SpanContext().SpanID() {
				t.Errorf("%d spans, the letter's traceparent is %q", len(ended), got)
			}
		})
	}
}

// A batch is one span with links, and its messages that are given up go on with their own traces.
func TestSpanOfABatch(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		spans := tracetest.NewSpanRecorder()
		f := newFake(map[string]int{"orders": 1})
		f.write(traced(rec("orders", "", "1"), writersTraceparent), rec("orders", "", "2"))
		_, stop := run(t, f, Config{TracerProvider: sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(spans))},
			BatchFunc(func(context.Context, []*Message) error { return &BatchError{map[int]error{0: Permanent(errBroken)}} }))
		time.Sleep(time.Minute)
		if err := stop(); err != nil {
			t.Error(err)
		}
		ended := spans.Ended()
		if len(ended) != 2 || ended[0].Name() != "process orders" || len(ended[0].Links()) != 1 || ended[1].Name() != "publish postrider.consumer.dlq" ||
			ended[1].Parent().SpanID().String() != "b7ad6b7169203331" {
			t.Fatalf("%d spans: %v", len(ended), ended)
		}
	})
}

// Without a provider a message costs nothing more, whatever its headers are.
func TestTracingOffAllocatesNothing(t *testing.T) {
	c := &Consumer{handler: HandlerFunc(func(context.Context, *Message) error { return nil })}
	m := &Message{Topic: "orders", Headers: traced(Record{}, writersTraceparent).Headers}
	ctx := context.Background()
	if n := testing.AllocsPerRun(1000, func() { _ = c.call(ctx, 0, m) }); n != 0 {
		t.Errorf("%v allocations a message", n)
	}
}
