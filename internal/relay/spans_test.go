package relay

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"

	"github.com/postrider/postrider/internal/testenv/logtest"
	"github.com/postrider/postrider/internal/tracecontext"
	"github.com/postrider/postrider/message"
)

// recording is a provider that keeps every span.
func recording(t *testing.T, options ...sdktrace.TracerProviderOption) (*sdktrace.TracerProvider, *tracetest.SpanRecorder) {
	t.Helper()
	spans := tracetest.NewSpanRecorder()
	p := sdktrace.NewTracerProvider(append(options, sdktrace.WithSpanProcessor(spans))...)
	t.Cleanup(func() { _ = p.Shutdown(t.Context()) })
	return p, spans
}

func named(t *testing.T, spans *tracetest.SpanRecorder, name string) sdktrace.ReadOnlySpan {
	t.Helper()
	var found sdktrace.ReadOnlySpan
	for _, s := range spans.Ended() {
		if s.Name() == name {
			if found != nil {
				t.Fatalf("two spans are named %s", name)
			}
			found = s
		}
	}
	if found == nil {
		t.Fatalf("no span is named %s among %d", name, len(spans.Ended()))
	}
	return found
}

func attributeOf(s sdktrace.ReadOnlySpan, key string) attribute.Value {
	for _, a := range s.Attributes() {
		if string(a.Key) == key {
			return a.Value
		}
	}
	return attribute.Value{}
}

// tracedBatch is one event whose writer is recorded, one whose writer is not, one with a broken traceparent and one without.
func tracedBatch() *memory {
	events := []Event{keyed(1, "k1"), keyed(2, "k2"), keyed(3, "k3"), keyed(4, "k4")}
	for i, value := range []string{recorded, strings.TrimSuffix(recorded, "1") + "0", "hostile"} {
		events[i].Headers = message.MarshalHeaders([]message.Header{{Name: "traceparent", Value: []byte(value)}})
	}
	m := newMemory()
	m.write(events...)
	return m
}

// leadOnce leads until there is nothing more to do.
func leadOnce(t *testing.T, r *Relay, m *memory) error {
	t.Helper()
	err := r.leadOnce(t.Context(), &tally{Store: m}, true)
	if wrong := m.check(); wrong != nil {
		t.Error(wrong)
	}
	return err
}

func TestSpansOfABatch(t *testing.T) {
	t.Parallel()
	p, spans := recording(t)
	var sending context.Context
	m, broker := tracedBatch(), &fakePublisher{outcome: func(ctx context.Context, m Message) Outcome {
		sending = ctx
		if m.ID.EventID[15] == 4 {
			return Outcome{Class: Record, Code: "CORRUPT_MESSAGE", Message: "refused \xff"}
		}
		return Outcome{Class: Delivered}
	}}
	r, err := New(Config{Store: m, Publisher: broker, TracerProvider: p})
	if err != nil {
		t.Fatal(err)
	}
	if err := leadOnce(t, r, m); err != nil {
		t.Fatal(err)
	}
	batch, event := named(t, spans, "outbox.batch"), named(t, spans, "publish t")
	for name, want := range map[string][4]int64{"outbox.batch": {4, 4, 3, 1}, "outbox.claim": {4, 4, 4, 0}, "outbox.publish": {4, 4, 3, 1}, "outbox.settle": {4, 4, 3, 1}} {
		s := named(t, spans, name)
		if name != "outbox.batch" && s.Parent().SpanID() != batch.SpanContext().SpanID() {
			t.Errorf("%s is not of the batch", name)
		}
		for i, key := range []string{"outbox.batch_size", "outbox.processed", "outbox.succeeded", "outbox.failed"} {
			if got := attributeOf(s, key).AsInt64(); got != want[i] {
				t.Errorf("%s: %s is %d, want %d", name, key, got, want[i])
			}
		}
		if attributeOf(s, "outbox.action").AsString() != "publish" || attributeOf(s, "outbox.dead_lettered").Type() != attribute.INT64 ||
			attributeOf(s, "outbox.duration_ms").Type() != attribute.FLOAT64 {
			t.Errorf("%s has the attributes %v", name, s.Attributes())
		}
	}
	for name, ctx := range map[string]context.Context{"outbox.batch": sending, "outbox.settle": m.settling} {
		if got := trace.SpanFromContext(ctx); got.SpanContext().SpanID() != named(t, spans, name).SpanContext().SpanID() {
			t.Errorf("what is asked for in %s is under %v", name, got.SpanContext())
		}
	}
	if event.SpanContext().TraceID().String() != aTrace || event.Parent().SpanID().String() != "b7ad6b7169203331" || event.SpanKind() != trace.SpanKindProducer {
		t.Errorf("the event's span is %v under %v", event.SpanContext(), event.Parent())
	}
	if links := named(t, spans, "outbox.publish").Links(); len(links) != 1 || links[0].SpanContext.SpanID() != event.SpanContext().SpanID() {
		t.Errorf("the batch links to %v", links)
	}
	sent := broker.sent[0]
	for i, want := range []string{string(tracecontext.Format(event.SpanContext())), strings.TrimSuffix(recorded, "1") + "0", "hostile"} {
		if got := string(sent[i].Headers[0].Value); got != want {
			t.Errorf("message %d has the traceparent %q, want %q", i, got, want)
		}
	}
	if len(sent[3].Headers) != 1 {
		t.Errorf("a message without a trace has the headers %q", sent[3].Headers)
	}
}

// A redriven message is published in its new trace, with a link to the old one.
func TestSpanOfARedrivenMessage(t *testing.T) {
	t.Parallel()
	p, spans := recording(t)
	m := newMemory()
	m.write(with(keyed(1, "k"), func(e *Event) {
		e.Headers = []byte(`{"traceparent": "00-11111111111111111111111111111111-2222222222222222-01", "replay_traceparent": "` + recorded + `"}`)
	}))
	r, err := New(Config{Store: m, Publisher: &fakePublisher{}, TracerProvider: p})
	if err != nil {
		t.Fatal(err)
	}
	if err := leadOnce(t, r, m); err != nil {
		t.Fatal(err)
	}
	s := named(t, spans, "publish t")
	if s.SpanContext().TraceID().String() != strings.Repeat("1", 32) || len(s.Links()) != 1 || s.Links()[0].SpanContext.TraceID().String() != aTrace {
		t.Errorf("trace %v with links %v", s.SpanContext().TraceID(), s.Links())
	}
}

// A failure marks its span as failed, and every span that began ends.
func TestSpansOfFailures(t *testing.T) {
	t.Parallel()
	for name, failing := range map[string]string{"outbox.settle": "settle", "outbox.batch": "hold ids"} {
		p, spans := recording(t)
		m := tracedBatch()
		m.write(keyed(0, "k"))
		m.fail = func(call string) error {
			if call == failing {
				return &StoreError{Class: StoreTransient, Code: "40001", Err: errors.New("no answer \xff")}
			}
			return nil
		}
		pub := &fakePublisher{outcome: func(_ context.Context, m Message) Outcome {
			if m.ID.EventID[15] == 5 {
				return Outcome{Class: Record, Code: "X"}
			}
			return Outcome{Class: Delivered}
		}}
		r, err := New(Config{Store: m, Publisher: pub, TracerProvider: p})
		if err != nil {
			t.Fatal(err)
		}
		if err := leadOnce(t, r, m); err == nil {
			t.Fatalf("%s: no error", name)
		}
		if s := named(t, spans, name); s.Status().Code != codes.Error {
			t.Errorf("%s: %+v", name, s.Status())
		}
		if len(spans.Started()) != len(spans.Ended()) {
			t.Errorf("%s: %d spans began, %d ended", name, len(spans.Started()), len(spans.Ended()))
		}
	}
}

// A provider that records nothing changes nothing about the messages.
func TestUnsampledSpansChangeNothing(t *testing.T) {
	t.Parallel()
	p, spans := recording(t, sdktrace.WithSampler(sdktrace.NeverSample()))
	m, broker := tracedBatch(), &fakePublisher{}
	r, err := New(Config{Store: m, Publisher: broker, TracerProvider: p})
	if err != nil {
		t.Fatal(err)
	}
	if err := leadOnce(t, r, m); err != nil {
		t.Fatal(err)
	}
	if got := string(broker.sent[0][0].Headers[0].Value); got != recorded || len(spans.Ended()) != 0 {
		t.Errorf("traceparent %q, %d spans", got, len(spans.Ended()))
	}
}

// Letters and actions have their spans too; the letter goes on with the trace of its event.
func TestSpansOfLettersAndActions(t *testing.T) {
	t.Parallel()
	p, spans := recording(t)
	dead := keyed(1, "k")
	dead.Headers = []byte(`{"traceparent": "` + recorded + `"}`)
	claims := 0
	store := &fakeStore{letters: func(context.Context, func(string) string, int) (LetterClaim, error) {
		if claims++; claims > 1 {
			return nil, nil
		}
		return &fakeLetters{events: []Event{dead}}, nil
	}}
	broker := &fakePublisher{}
	r, err := New(Config{Store: store, Publisher: broker, TracerProvider: p})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := r.ProcessPending(t.Context(), ActionOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := r.Cleanup(t.Context(), CleanupOptions{}); err != nil {
		t.Fatal(err)
	}
	action, letters := named(t, spans, "outbox.processPending"), named(t, spans, "outbox.dead_letter")
	if letters.Parent().SpanID() != action.SpanContext().SpanID() || attributeOf(action, "outbox.dead_lettered").AsInt64() != 1 ||
		attributeOf(letters, "outbox.dead_lettered").AsInt64() != 1 {
		t.Errorf("action %v, letters %v", action.Attributes(), letters.Attributes())
	}
	letter := named(t, spans, "publish postrider.dlq")
	if got := string(broker.sent[0][0].Headers[0].Value); letter.SpanContext().TraceID().String() != aTrace || got != string(tracecontext.Format(letter.SpanContext())) {
		t.Errorf("the letter's span is %v, its traceparent %q", letter.SpanContext(), got)
	}
	named(t, spans, "outbox.cleanup")
}

// Without a provider no event costs anything, whatever its headers are. With a provider, events that are not traced cost
// nothing.
func TestTracingIsFreeForWhatIsNotTraced(t *testing.T) {
	began := time.Now()
	ms := make([]Message, 1000)
	for i := range ms {
		ms[i].Headers = headersOf(recorded)
	}
	outcomes := make([]Outcome, len(ms))
	for i := range outcomes {
		outcomes[i].Class = Delivered
	}
	run := func(t *tracing, ms []Message) func() {
		return func() {
			p := t.pass(context.Background(), actionPublish, "batch", began, began, len(ms))
			p.publish(ms).end(outcomes)
			p.settle(p.in(context.Background()))
			p.settled(len(ms), len(ms), 0, 0, nil)
			p.close(nil)
		}
	}
	if n := testing.AllocsPerRun(10, run(newTracing(nil), ms)); n != 0 {
		t.Errorf("off: %v allocations a batch", n)
	}
	for i := range ms {
		ms[i].Headers = headersOf(strings.TrimSuffix(recorded, "1") + "0")
	}
	p, _ := recording(t, sdktrace.WithSampler(sdktrace.NeverSample()))
	traced := newTracing(p)
	large := testing.AllocsPerRun(10, run(traced, ms))
	small := testing.AllocsPerRun(10, run(traced, ms[:1]))
	if large != small {
		t.Errorf("on: %v allocations for a batch of 1000, %v for one of 1", large, small)
	}
}

// A sampler of the relay's batches knows the spans of all actions by their names.
func TestActionsAreAskedFor(t *testing.T) {
	t.Parallel()
	p, spans := recording(t)
	for _, action := range []Action{ActionProcessPending, ActionProcessRetries, ActionCleanup, ActionDLQStats} {
		_, end := Report{TracerProvider: p}.Begin(t.Context(), action)
		end(ActionResult{}, nil)
		if s := named(t, spans, "outbox."+string(action)); !tracecontext.Asked(s.Name()) {
			t.Errorf("%s is not known as asked for", s.Name())
		}
	}
	for _, name := range []string{"outbox.batch", "outbox.purge", "publish orders", "redrive it", ""} {
		if tracecontext.Asked(name) {
			t.Errorf("%q is known as asked for", name)
		}
	}
}

// Actions write their lines where Config says so, and what fails says why.
func TestActionsAreLogged(t *testing.T) {
	t.Parallel()
	for _, logs := range []bool{false, true} {
		var log logtest.Buffer
		r, err := New(Config{Store: &fakeStore{}, Publisher: &fakePublisher{}, Logger: slog.New(slog.NewTextHandler(&log, nil)), LogActions: logs})
		if err != nil {
			t.Fatal(err)
		}
		_, err1 := r.ProcessPending(t.Context(), ActionOptions{})
		_, err2 := r.ProcessRetries(t.Context(), ActionOptions{Limit: -1})
		_, err3 := r.Cleanup(t.Context(), CleanupOptions{DryRun: true})
		if err1 != nil || err2 == nil || err3 != nil {
			t.Fatal(err1, err2, err3)
		}
		said := log.String()
		for _, want := range []string{"action=processPending batch_size=5000 processed=0", "level=ERROR", "action=processRetries", "must not be negative", "action=cleanup dry_run=true published=0"} {
			if strings.Contains(said, want) != logs {
				t.Errorf("logs %v: %q in %s", logs, want, said)
			}
		}
		if n := strings.Count(said, "outbox action"); logs && n != 3 || !logs && n != 0 {
			t.Errorf("logs %v: %d lines: %s", logs, n, said)
		}
	}
}
