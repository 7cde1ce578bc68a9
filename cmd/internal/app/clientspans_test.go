package app

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"

	"github.com/postrider/postrider/internal/testenv/kafkatest"
	"github.com/postrider/postrider/internal/testenv/pgtest"
	"github.com/postrider/postrider/internal/tracecontext"
	"github.com/postrider/postrider/message"
	"github.com/postrider/postrider/outbox"
)

// Where the spans of the plugins come from.
const (
	ofPgx   = "github.com/exaring/otelpgx"
	ofKotel = "github.com/twmb/franz-go/plugin/kotel"
)

// traced is what came of one event that was delivered and one that was given up, both of one writer's trace.
type traced struct {
	tree
	orders, letters []*kgo.Record
	secrets         []string // what no span may say
}

func traceClients(t *testing.T, database, client bool) traced {
	t.Helper()
	spans := tracetest.NewInMemoryExporter()
	provider := sdktrace.NewTracerProvider(sdktrace.WithSyncer(spans))
	broker, db := kafkatest.Kfake(t), pgtest.New(t)
	conn, address, password := asRelay(t, db, broker)
	c := settings(t, address, broker.Addrs...)
	c.Tracing.Database, c.Tracing.KafkaClient = database, client
	a := run(t, Options{Config: c, Roles: []Role{Relay, Collector, HTTP}, TracerProvider: provider})
	waitReady(t, a)
	_, request := provider.Tracer("orders-service").Start(t.Context(), "POST /orders")
	headers := []message.Header{{Name: "a", Value: []byte("header-s3ntinel")}, {Name: tracecontext.Header, Value: tracecontext.Format(request.SpanContext())}, {Name: "b", Value: []byte{0xff}}}
	enqueue(t, conn, outbox.Message{Topic: "orders", Key: []byte("key-s3ntinel"), Payload: []byte(`"payload-s3ntinel"`), Headers: headers},
		outbox.Message{Topic: "orders", Key: []byte("key-of-s3ntinel"), Payload: slices.Repeat([]byte("s3ntinel"), 1<<18), Headers: headers})
	request.End()
	got := traced{tree: tree{spans, request.SpanContext().TraceID()}, secrets: []string{"s3ntinel", password}}
	got.wait(t, "dlq.open")
	got.orders, got.letters = broker.ReadAll(t, "orders", 1), broker.ReadAll(t, "postrider.dlq", 1)
	if err := a.Stop(t.Context()); err != nil { // every span has ended
		t.Error(err)
	}
	return got
}

// under are the names of the spans of a scope that stand below a span, at any depth.
func (tr tree) under(above trace.SpanID, scope string) (names []string) {
	for _, s := range tr.spans() {
		if s.Parent.SpanID() == above {
			if s.InstrumentationScope.Name == scope {
				names = append(names, s.Name)
			}
			names = append(names, tr.under(s.SpanContext.SpanID(), scope)...)
		}
	}
	return names
}

// one is the only span with this name.
func (tr tree) one(t *testing.T, name string) tracetest.SpanStub {
	t.Helper()
	found := tr.named(name)
	if len(found) != 1 {
		t.Fatalf("%d spans are named %s:\n%s", len(found), name, tr)
	}
	return found[0]
}

// headerNames are the names of a record's headers, in their order.
func headerNames(r *kgo.Record) (names []string) {
	for _, h := range r.Headers {
		names = append(names, h.Key)
	}
	return names
}

func headerOf(t *testing.T, r *kgo.Record, name string) string {
	t.Helper()
	at := slices.IndexFunc(r.Headers, func(h kgo.RecordHeader) bool { return h.Key == name })
	if at < 0 {
		t.Fatalf("the record has no header %s but %q", name, headerNames(r))
	}
	return string(r.Headers[at].Value)
}

// The work of the clients of PostgreSQL and Kafka for an event and for a dead letter stands in their traces where the
// settings ask for it, under spans of ours and with nothing from the content of messages. Records are the same, byte by
// byte, but for what they always say of their own trace.
func TestSpansOfClients(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ database, client bool }{"none": {}, "database": {database: true}, "Kafka client": {client: true}, "both": {true, true}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := traceClients(t, c.database, c.client)
			published, letter, opened := got.one(t, "publish orders"), got.one(t, "publish postrider.dlq"), got.one(t, "dlq.open")
			wantClientSpans(t, got, c.client, published, letter)
			wantStatementSpans(t, got, c.database, published, opened)
			wantHeaders(t, got, published, letter)
			statement := regexp.MustCompile(`^([a-z_]+|[A-Z]+|batch start)$`)
			for _, s := range got.all.GetSpans() {
				if scope := s.InstrumentationScope.Name; scope == ofPgx || scope == ofKotel {
					if !s.Parent.IsValid() || s.Parent.TraceID() != s.SpanContext.TraceID() {
						t.Errorf("%s is a trace of its own", s.Name)
					}
					if scope == ofPgx && !statement.MatchString(s.Name) {
						t.Errorf("a statement is named %q", s.Name)
					}
				}
				said := fmt.Sprintf("%s %+v %+v %+v", s.Name, s.Status, s.Attributes, s.Events)
				for _, secret := range got.secrets {
					if strings.Contains(said, secret) {
						t.Errorf("a span has what is secret: %s", said)
					}
				}
			}
		})
	}
}

func wantClientSpans(t *testing.T, got traced, on bool, published, letter tracetest.SpanStub) {
	t.Helper()
	for above, want := range map[trace.SpanID]string{published.SpanContext.SpanID(): "[orders publish]", letter.SpanContext.SpanID(): "[postrider.dlq publish postrider.dlq receive]"} {
		if !on {
			want = "[]"
		}
		if names := fmt.Sprint(got.under(above, ofKotel)); names != want {
			t.Errorf("the client's spans are %s, want %s:\n%s", names, want, got.tree)
		}
	}
	if !on {
		return
	}
	for name, r := range map[string]*kgo.Record{"orders publish": got.orders[0], "postrider.dlq publish": got.letters[0]} {
		said := fmt.Sprintf("%v", got.one(t, name).Attributes)
		for _, a := range got.one(t, name).Attributes {
			said += fmt.Sprintf(" %s=%s ", a.Key, a.Value.String())
		}
		for _, want := range []string{fmt.Sprintf("messaging.kafka.destination.partition=%d ", r.Partition), fmt.Sprintf("messaging.kafka.message.offset=%d ", r.Offset)} {
			if !strings.Contains(said, want) {
				t.Errorf("%s does not say %s: %s", name, want, said)
			}
		}
	}
}

func wantStatementSpans(t *testing.T, got traced, on bool, published, opened tracetest.SpanStub) {
	t.Helper()
	recorded := got.under(opened.SpanContext.SpanID(), ofPgx)
	batch := tree{all: got.all}
	for _, s := range got.all.GetSpans() {
		if s.Name == "outbox.publish" && slices.ContainsFunc(s.Links, func(l sdktrace.Link) bool { return l.SpanContext.SpanID() == published.SpanContext.SpanID() }) {
			batch.id = s.SpanContext.TraceID()
		}
	}
	all, settled := batch.under(batch.one(t, "outbox.batch").SpanContext.SpanID(), ofPgx), batch.under(batch.one(t, "outbox.settle").SpanContext.SpanID(), ofPgx)
	if !on {
		if n := len(recorded) + len(all); n > 0 {
			t.Errorf("%d spans of statements:\n%s\n%s", n, got.tree, batch)
		}
		return
	}
	for _, want := range []struct {
		in    []string
		names []string
	}{{recorded, []string{"BEGIN", "letter_find", "COMMIT"}}, {settled, []string{"batch start", "log_receipt", "log_exceptions"}}} {
		for _, name := range want.names {
			if !slices.Contains(want.in, name) {
				t.Errorf("%s is not among %q:\n%s\n%s", name, want.in, got.tree, batch)
			}
		}
	}
	if len(settled) != len(all) {
		t.Errorf("a batch has statements that do not settle it:\n%s", batch)
	}
}

func wantHeaders(t *testing.T, got traced, published, letter tracetest.SpanStub) {
	t.Helper()
	for r, from := range map[*kgo.Record]tracetest.SpanStub{got.orders[0]: published, got.letters[0]: letter} {
		if value, want := headerOf(t, r, tracecontext.Header), string(tracecontext.Format(from.SpanContext)); value != want {
			t.Errorf("the record in %s comes from %s, not from our span %s", r.Topic, value, want)
		}
		names := headerNames(r)
		if slices.Sort(names); len(slices.Compact(names)) != len(r.Headers) {
			t.Errorf("a header is there twice: %q", headerNames(r))
		}
		if headerOf(t, r, "a") != "header-s3ntinel" || headerOf(t, r, "b") != "\xff" {
			t.Errorf("the writer's headers are %q", r.Headers)
		}
	}
	if names := fmt.Sprint(headerNames(got.orders[0])); !strings.HasPrefix(names, "[a traceparent b ") || strings.Contains(names, "tracestate") || strings.Contains(names, "baggage") {
		t.Errorf("the headers are %s", names)
	}
}
