package postgres

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgconn"
	"go.opentelemetry.io/otel/codes"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"

	"github.com/postrider/postrider/internal/dlq"
	"github.com/postrider/postrider/internal/tracecontext"
	"github.com/postrider/postrider/message"
)

// A redrive is a new trace, recorded as the old one was, that names the old one; an invalid traceparent stays as it is.
func TestARedriveIsATraceOfItsOwn(t *testing.T) {
	t.Parallel()
	r := newRedriving(t)
	r.die(1, nil)
	const old = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	redrive := func(headers [][2]any) [][]any {
		t.Helper()
		raw, err := json.Marshal(headers)
		if err != nil {
			t.Fatal(err)
		}
		mustExec(t, r.subject.pool, `select postrider.dlq_redrive_letters(array[letter_id], array[gen_random_uuid()], array['orders'], array[$1::jsonb], false, null) from postrider.dlq_letter`, string(raw))
		var text string
		if err := r.subject.pool.QueryRow(t.Context(), `select headers::text from postrider.outbox_event order by id desc limit 1`).Scan(&text); err != nil {
			t.Fatal(err)
		}
		var out [][]any
		if err := json.Unmarshal([]byte(text), &out); err != nil {
			t.Fatal(err)
		}
		return out
	}
	fresh := regexp.MustCompile(`^00-[0-9a-f]{32}-[0-9a-f]{16}-([0-9a-f]{2})$`)
	for _, given := range []string{old, strings.TrimSuffix(old, "1") + "0", "cc-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01-more"} {
		got := redrive([][2]any{{"a", "1"}, {"traceparent", given}, {"tracestate", "v=1"}, {"replay_traceparent", "older"}, {"b", nil}})
		traceparent, _ := got[1][1].(string)
		if m := fresh.FindStringSubmatch(traceparent); m == nil || m[1] != given[53:55] || strings.Contains(traceparent, given[3:35]) ||
			!tracecontext.Of([]message.Header{{Name: "traceparent", Value: []byte(traceparent)}}).IsValid() {
			t.Errorf("%s became %s", given, traceparent)
		}
		got[1][1] = "new"
		if text := fmt.Sprint(got); !strings.HasPrefix(text, "[[a 1] [traceparent new] [b <nil>] [replay_of event:") || !strings.HasSuffix(text, "[replay_traceparent "+given+"]]") {
			t.Errorf("the headers are %s", text)
		}
	}
	for _, begun := range []string{"", "hostile", old + "\n", old[:len(old)-1] + "2", "cc" + old[2:]} {
		var refused *pgconn.PgError
		_, err := r.subject.pool.Exec(t.Context(), `select postrider.dlq_redrive_letters(array[letter_id], array[gen_random_uuid()], array['orders'], array[null::jsonb], false, null, $1) from postrider.dlq_letter`, begun)
		if !errors.As(err, &refused) || refused.Code != "22023" || !strings.Contains(refused.Message, "is no traceparent") {
			t.Errorf("a redrive from %q: %v", begun, err)
		}
	}
	for _, given := range [][][2]any{
		{}, {{"traceparent", "hostile"}}, {{"traceparent", old}, {"traceparent", old}}, {{"traceparent", nil}}, {{"traceparent", map[string]string{"base64": "AA=="}}},
		{{"traceparent", "00-00000000000000000000000000000000-b7ad6b7169203331-01"}, {"tracestate", "v=1"}}, {{"traceparent", "00-0af7651916cd43dd8448eb211c80319c-0000000000000000-01"}},
		{{"traceparent", "ff" + old[2:]}}, {{"traceparent", old + "-more"}}, {{"traceparent", strings.ToUpper(old)}}, {{"traceparent", old + "\n"}},
		{{"traceparent", strings.Repeat("0", 100_000)}},
	} {
		got := redrive(append(given, [2]any{"replay_traceparent", "older"}))
		for i := range given {
			if fmt.Sprint(got[i]) != fmt.Sprint(given[i]) {
				t.Errorf("%.100q became %.100q", given[i], got[i])
			}
		}
		var added []any
		for _, h := range got[len(given):] {
			added = append(added, h[0])
		}
		if !slices.Equal(added, []any{dlq.HeaderReplayOf, dlq.HeaderReplayID, message.HeaderHops, message.HeaderRedriveOf}) {
			t.Errorf("of %.100q there are %.200q", given, got)
		}
	}
}

// traced gives message n a traceparent, and its letter, too.
func (r *redriving) traced(n int, traceparent string) uuid.UUID {
	r.t.Helper()
	return r.die(n, func(l *dlq.Letter) {
		l.Headers = []message.Header{{Name: "a", Value: []byte("1")}, {Name: "traceparent", Value: []byte(traceparent)}}
	})
}

// recording lets the redriver make spans, sampled as the sampler says.
func (r *redriving) recording(sampler sdktrace.Sampler) *tracetest.SpanRecorder {
	spans := tracetest.NewSpanRecorder()
	r.tracer = tracerOf(sdktrace.NewTracerProvider(sdktrace.WithSampler(sampler), sdktrace.WithSpanProcessor(spans)))
	return spans
}

// traceOf is the traceparent of a message that was sent again; empty where it has none.
func traceOf(s sent) string {
	for _, h := range s.Headers {
		if h[0] == "traceparent" {
			return h[1]
		}
	}
	return ""
}

// figuresOf are the attributes of a span, as text.
func figuresOf(s sdktrace.ReadOnlySpan) map[string]string {
	all := map[string]string{}
	for _, a := range s.Attributes() {
		all[string(a.Key)] = a.Value.String()
	}
	return all
}

const (
	sampledTrace   = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	unsampledTrace = "00-1af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00"
)

// TestSpanOfARedrive: a request has one span. The new traces of its messages begin with it. Traces that were recorded are
// recorded again, and the span links to these.
func TestSpanOfARedrive(t *testing.T) {
	t.Parallel()
	r := newRedriving(t)
	spans := r.recording(sdktrace.AlwaysSample())
	entries := []uuid.UUID{r.traced(1, sampledTrace), r.traced(2, unsampledTrace), r.traced(3, "hostile"), r.die(4, nil)}
	r.redrive(entries...)
	if done := r.redrive(entries[0]); len(done.Skipped) != 1 {
		t.Fatalf("again: %+v", done)
	}
	ended := spans.Ended()
	if len(ended) != 2 || ended[0].Name() != "redrive" || ended[0].Parent().IsValid() {
		t.Fatalf("the spans are %v", ended)
	}
	for i, want := range []map[string]string{
		{"dlq.entries": "4", "dlq.sent": "4", "dlq.in_place": "0", "dlq.skipped": "0"}, {"dlq.entries": "1", "dlq.sent": "0", "dlq.in_place": "0", "dlq.skipped": "1"},
	} {
		if got := figuresOf(ended[i]); !maps.Equal(got, want) {
			t.Errorf("redrive %d: %v, want %v", i, got, want)
		}
	}
	if links := ended[0].Links(); len(links) != 1 || string(tracecontext.Format(links[0].SpanContext)) != sampledTrace {
		t.Errorf("it links to %v", links)
	}
	begun := string(tracecontext.Format(ended[0].SpanContext()))
	var got []string
	for _, s := range r.sent() {
		got = append(got, traceOf(s))
	}
	if want := []string{begun, strings.TrimSuffix(begun, "1") + "0", "hostile", ""}; !slices.Equal(got, want) {
		t.Errorf("the traceparents are %q, want %q", got, want)
	}
}

// TestRedrivesThatNobodyTraces: without a tracer each message has a trace of its own, or goes on from the caller's span;
// where the redrive is not recorded, nothing of it is.
func TestRedrivesThatNobodyTraces(t *testing.T) {
	t.Parallel()
	r := newRedriving(t)
	r.redrive(r.traced(1, sampledTrace), r.traced(2, sampledTrace))
	caller := trace.NewSpanContext(trace.SpanContextConfig{TraceID: trace.TraceID{1}, SpanID: trace.SpanID{2}, TraceFlags: trace.FlagsSampled})
	_, err := r.Redrive(trace.ContextWithSpanContext(t.Context(), caller), dlq.RedriveRequest{Entries: []uuid.UUID{r.traced(3, sampledTrace)}, Actor: "ada"})
	if err != nil {
		t.Fatal(err)
	}
	spans := r.recording(sdktrace.NeverSample())
	r.redrive(r.traced(4, sampledTrace))
	var got []trace.SpanContext
	for _, s := range r.sent() {
		got = append(got, tracecontext.Of([]message.Header{{Name: "traceparent", Value: []byte(traceOf(s))}}))
	}
	if len(got) != 4 || !got[0].IsSampled() || !got[1].IsSampled() || got[0].TraceID() == got[1].TraceID() {
		t.Fatalf("the traces are %v", got)
	}
	if got[2].TraceID() != caller.TraceID() || got[2].SpanID() != caller.SpanID() || !got[2].IsSampled() {
		t.Errorf("under a caller's span: %v", got[2])
	}
	if !got[3].IsValid() || got[3].IsSampled() || len(spans.Ended()) != 0 {
		t.Errorf("not recorded: %v, %d spans", got[3], len(spans.Ended()))
	}
}

// TestSpanOfARedriveThatFails: nothing was sent, and it says why.
func TestSpanOfARedriveThatFails(t *testing.T) {
	t.Parallel()
	r := newRedriving(t)
	spans := r.recording(sdktrace.AlwaysSample())
	entry := r.traced(1, sampledTrace)
	r.audit.refuse = errors.New("no room for the audit log")
	if _, err := r.Redrive(t.Context(), dlq.RedriveRequest{Entries: []uuid.UUID{entry}, Actor: "ada"}); err == nil {
		t.Fatal("it was sent past the audit log")
	}
	ended := spans.Ended()
	if len(ended) != 1 || ended[0].Status().Code != codes.Error || !strings.Contains(ended[0].Status().Description, "no room") ||
		figuresOf(ended[0])["dlq.sent"] != "0" || len(ended[0].Links()) != 0 {
		t.Errorf("the spans are %v", ended)
	}
	if len(spans.Started()) != len(ended) {
		t.Errorf("%d spans began", len(spans.Started()))
	}
}

// TestSpanOfManyRedrives: however many messages one request sends, it has one span, and no more links than a span may have.
func TestSpanOfManyRedrives(t *testing.T) {
	t.Parallel()
	r := newRedriving(t)
	const n = tracecontext.MaxLinks + 20
	var entries []uuid.UUID
	for i := range n {
		entries = append(entries, r.traced(i+1, fmt.Sprintf("00-%032x-%016x-01", i+1, i+1)))
	}
	spans := r.recording(sdktrace.AlwaysSample())
	r.redrive(entries...)
	ended := spans.Ended()
	if len(ended) != 1 || len(ended[0].Links()) != tracecontext.MaxLinks || ended[0].DroppedLinks() != 0 || figuresOf(ended[0])["dlq.sent"] != strconv.Itoa(n) {
		t.Fatalf("%d spans, %d links", len(ended), len(ended[0].Links()))
	}
	for _, s := range r.sent() {
		if traceOf(s) != string(tracecontext.Format(ended[0].SpanContext())) {
			t.Errorf("a message has the traceparent %s", traceOf(s))
		}
	}
}

// TestSpansOfAnOperation: each step that sends messages has a span, and no other step; a message that goes back in its
// place stays in its trace, to which the step links.
func TestSpansOfAnOperation(t *testing.T) {
	t.Parallel()
	r := newRedriving(t)
	spans := r.recording(sdktrace.AlwaysSample())
	for n := range 3 {
		r.traced(n+1, sampledTrace)
	}
	r.halt(3)
	o := r.plan(all, dlq.OperationOptions{Canary: 2})
	r.command(o.UUID, dlq.Start)
	if n := r.step(); n != 2 {
		t.Fatalf("the canary is %d", n)
	}
	r.step() // waits for it
	r.deliver(2)
	for range 3 {
		r.step()
	}
	ended := spans.Ended()
	if len(ended) != 2 || ended[0].SpanContext().TraceID() == ended[1].SpanContext().TraceID() {
		t.Fatalf("the spans are %v", ended)
	}
	for i, want := range []map[string]string{
		{"dlq.entries": "2", "dlq.sent": "2", "dlq.in_place": "0", "dlq.skipped": "0"}, {"dlq.entries": "1", "dlq.sent": "1", "dlq.in_place": "1", "dlq.skipped": "0"},
	} {
		want["dlq.operation_uuid"] = o.UUID.String()
		if got := figuresOf(ended[i]); ended[i].Name() != "redrive" || !maps.Equal(got, want) {
			t.Errorf("step %d: %s %v, want %v", i, ended[i].Name(), got, want)
		}
		if links := ended[i].Links(); len(links) == 0 || string(tracecontext.Format(links[0].SpanContext)) != sampledTrace {
			t.Errorf("step %d links to %v", i, links)
		}
	}
	// Operations of other kinds send nothing.
	r.command(o.UUID, dlq.Abort)
	r.traced(9, sampledTrace)
	closing, err := r.PlanOperation(t.Context(), dlq.NewOperation{Kind: dlq.OpResolve, Name: "known", Actor: "ada", Scope: all})
	if err != nil {
		t.Fatal(err)
	}
	r.command(closing.UUID, dlq.Start)
	r.step()
	if n := len(spans.Started()); n != 2 || r.operation(closing.UUID).Done == 0 {
		t.Errorf("%d spans began, %+v", n, r.operation(closing.UUID))
	}
}
