package replay

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"testing"

	"go.opentelemetry.io/otel/codes"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/postrider/postrider/internal/relay"
	"github.com/postrider/postrider/internal/tracecontext"
	"github.com/postrider/postrider/message"
)

// tracing lets a replay make spans.
func tracing(r *Replay) *tracetest.SpanRecorder {
	spans := tracetest.NewSpanRecorder()
	r.tracer = sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(spans)).Tracer("test")
	return spans
}

// attributesOf are the attributes of a span, as text.
func attributesOf(s sdktrace.ReadOnlySpan) map[string]string {
	all := map[string]string{}
	for _, a := range s.Attributes() {
		all[string(a.Key)] = a.Value.String()
	}
	return all
}

// tracedLetter is a foreign letter of a message with a traceparent.
func tracedLetter(l *letters, n int, traceparent string) {
	record := foreign(n, nil)
	record.Headers = append(record.Headers, message.Header{Name: tracecontext.Header, Value: []byte(traceparent)})
	l.add(0, record)
}

// TestSpanOfARun: a call that sends has one span, with its result, and links to the recorded traces of the messages
// that it sent. Messages go on in their traces: their traceparents stay as they are.
func TestSpanOfARun(t *testing.T) {
	t.Parallel()
	const sampled, unsampled = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", "00-1af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00"
	l := newLetters(1, "payments")
	for n, traceparent := range []string{sampled, unsampled, "hostile"} {
		tracedLetter(l, n, traceparent)
	}
	l.add(0, foreign(3, nil))
	r := newReplay(t, l, optionsOf(func(o *Options) { o.Run = "incident-7" }), 2)
	spans := tracing(r)
	p, err := r.Plan(t.Context())
	if err != nil || len(spans.Started()) != 0 {
		t.Fatalf("the plan: %d spans, %v", len(spans.Started()), err)
	}
	if _, err := r.Run(t.Context(), p); err != nil {
		t.Fatal(err)
	}
	ended := spans.Ended()
	if len(ended) != 1 || ended[0].Name() != "replay" {
		t.Fatalf("the spans are %v", ended)
	}
	if got, want := attributesOf(ended[0]), (map[string]string{"replay.from": source, "replay.to": "original", "replay.run": "incident-7", "replay.offsets": "4", "replay.sent": "4",
		"replay.skipped": "0", "replay.not_matching": "0", "replay.missed": "0", "replay.remaining": "0"}); !maps.Equal(got, want) {
		t.Errorf("its attributes are %v, want %v", got, want)
	}
	if links := ended[0].Links(); len(links) != 1 || string(tracecontext.Format(links[0].SpanContext)) != sampled {
		t.Errorf("it links to %v", links)
	}
	for i, want := range []string{sampled, unsampled, "hostile", ""} {
		if got := headerOf(&l.sent[i], tracecontext.Header); got != want {
			t.Errorf("message %d has the traceparent %q, want %q", i, got, want)
		}
	}
	if p, err = r.Plan(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := r.Run(t.Context(), p); err != nil || len(spans.Started()) != 1 {
		t.Errorf("with nothing to do: %d spans, %v", len(spans.Started()), err)
	}
}

// TestSpanOfARunIsBounded: many messages are no more links than a span may have.
func TestSpanOfARunIsBounded(t *testing.T) {
	t.Parallel()
	l := newLetters(1, "payments")
	for n := range tracecontext.MaxLinks + 10 {
		tracedLetter(l, n, fmt.Sprintf("00-%032x-%016x-01", n+1, n+1))
	}
	r := newReplay(t, l, optionsOf(nil), 50)
	spans := tracing(r)
	p, err := r.Plan(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := r.Run(t.Context(), p); err != nil {
		t.Fatal(err)
	}
	if s := spans.Ended(); len(s) != 1 || len(s[0].Links()) != tracecontext.MaxLinks || s[0].DroppedLinks() != 0 {
		t.Errorf("the spans are %v", s)
	}
}

// TestSpanOfARunThatFails: it says why, and what was sent before.
func TestSpanOfARunThatFails(t *testing.T) {
	t.Parallel()
	l := newLetters(1, "payments")
	numbered(l, 3)
	l.answer = func(m *relay.Message) relay.Outcome {
		if string(m.Value) == "1" {
			return relay.Outcome{Class: relay.Permanent, Code: "MESSAGE_TOO_LARGE", Message: "too large"}
		}
		return relay.Outcome{}
	}
	r := newReplay(t, l, optionsOf(nil), 1)
	spans := tracing(r)
	p, err := r.Plan(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := r.Run(t.Context(), p); err == nil {
		t.Fatal("a refused letter does not end it")
	}
	ended := spans.Ended()
	if len(ended) != 1 || ended[0].Status().Code != codes.Error {
		t.Fatalf("the spans are %v", ended)
	}
	if got := attributesOf(ended[0]); got["error.type"] != "MESSAGE_TOO_LARGE" || got["replay.sent"] != "1" || got["replay.remaining"] != "2" {
		t.Errorf("its attributes are %v", got)
	}
	for err, want := range map[error]string{ErrNoBroker: "NO_BROKERS", fmt.Errorf("x: %w", ErrTakenOver): "TAKEN_OVER", context.Canceled: "STOPPED", errors.New("x"): relay.CodeOther} {
		if got := code(err); got != want {
			t.Errorf("%v is %s, want %s", err, got, want)
		}
	}
}
