package app

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"

	"github.com/postrider/postrider/consumer"
	consumerkafka "github.com/postrider/postrider/consumer/kafka"
	"github.com/postrider/postrider/internal/dlq"
	"github.com/postrider/postrider/internal/testenv/kafkatest"
	"github.com/postrider/postrider/internal/testenv/pgtest"
	"github.com/postrider/postrider/internal/tracecontext"
	"github.com/postrider/postrider/message"
	"github.com/postrider/postrider/outbox"
)

// TestOneTraceFromEndToEnd: a writer's trace goes through outbox, topic, consumer, retry topic and dead letter to the
// investigation, which names it. The redrive is another trace, linked to the first, and goes to the second delivery. No
// span of either is under a span that was not exported. With -v it prints both.
func TestOneTraceFromEndToEnd(t *testing.T) {
	t.Parallel()
	spans := tracetest.NewInMemoryExporter()
	provider := sdktrace.NewTracerProvider(sdktrace.WithSyncer(spans))
	tracer := provider.Tracer("orders-service")
	broker := kafkatest.Kfake(t)
	for _, topic := range []string{"orders", "postrider.consumer.dlq"} {
		broker.CreateTopic(t, topic, 1, nil)
	}
	db := pgtest.New(t)
	pool := db.Pool(t)
	a := run(t, Options{Config: settings(t, db.URL, broker.Addrs...), Roles: []Role{Relay, Collector, Operator, HTTP}, TracerProvider: provider})
	waitReady(t, a)
	var mended atomic.Bool
	bill(t, broker, provider, func(ctx context.Context) error {
		_, span := tracer.Start(ctx, "charge the card")
		defer span.End()
		if !mended.Load() {
			return errors.New("the card is not known")
		}
		return nil
	})

	ctx, request := tracer.Start(t.Context(), "POST /orders", trace.WithSpanKind(trace.SpanKindServer))
	err := pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
		_, err := outbox.Enqueue(ctx, tx, outbox.Message{Topic: "orders", Key: []byte("o-1"), Payload: []byte(`{"article": "door"}`),
			Headers: []message.Header{{Name: "traceparent", Value: tracecontext.Format(request.SpanContext())}}})
		return err
	})
	request.End()
	if err != nil {
		t.Fatal(err)
	}
	first := tree{spans, request.SpanContext().TraceID()}
	first.wait(t, "dlq.open")
	first.chain(t, "POST /orders", "publish orders", "process orders", "publish orders.billing.retry.50ms", "process orders.billing.retry.50ms", "publish postrider.consumer.dlq", "dlq.open")

	entry := onlyEntry(t, a)
	if got := entry.TraceID(); got != first.id.String() {
		t.Errorf("the investigation is of trace %q, want %s", got, first.id)
	}
	mended.Store(true)
	done, err := a.Services().Redriver.Redrive(t.Context(), dlq.RedriveRequest{Entries: []uuid.UUID{entry.UUID}, Actor: "ada"})
	if err != nil || len(done.Entries) != 1 {
		t.Fatalf("redrive: %+v, %v", done, err)
	}
	var again string
	if err := pool.QueryRow(t.Context(), `select h->>1 from postrider.outbox_event e, jsonb_array_elements(e.headers) h
		where e.id = (select max(id) from postrider.outbox_event) and h->>0 = 'traceparent'`).Scan(&again); err != nil {
		t.Fatal(err)
	}
	second := tree{spans, tracecontext.Of([]message.Header{{Name: "traceparent", Value: []byte(again)}}).TraceID()}
	if second.id == first.id || !second.id.IsValid() {
		t.Fatalf("the redrive has the traceparent %s in trace %s", again, first.id)
	}
	second.wait(t, "process orders.billing.retry") // the topic of the group that failed, to which a redrive goes by default
	second.chain(t, "redrive", "publish orders.billing.retry", "process orders.billing.retry", "charge the card")
	letter := first.named("publish postrider.consumer.dlq")[0]
	for _, name := range []string{"redrive", "publish orders.billing.retry"} {
		links := second.named(name)[0].Links
		if len(links) != 1 || links[0].SpanContext.SpanID() != letter.SpanContext.SpanID() || links[0].SpanContext.TraceID() != first.id {
			t.Errorf("%s links to %+v", name, links)
		}
	}
	first.whole(t, "POST /orders")
	second.whole(t, "redrive")
	t.Logf("\n%s\n%s", first, second)
}

// bill runs a consumer of the topic orders with one retry topic until the test ends.
func bill(t *testing.T, b *kafkatest.Broker, p trace.TracerProvider, charge func(context.Context) error) {
	t.Helper()
	client, err := consumerkafka.NewClient(consumerkafka.Config{Brokers: b.Addrs, CreateTopics: true})
	if err != nil {
		t.Fatal(err)
	}
	c, err := consumer.New(consumer.Config{Client: client, Group: "billing", Topics: []string{"orders"}, TracerProvider: p,
		Policy: consumer.Policy{Delays: []time.Duration{50 * time.Millisecond}}},
		consumer.HandlerFunc(func(ctx context.Context, _ *consumer.Message) error { return charge(ctx) }))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- c.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

func onlyEntry(t *testing.T, a *App) dlq.Entry {
	t.Helper()
	var e dlq.Entry
	eventually(t, "the investigation", func() (bool, string) {
		page, err := a.Services().Investigations.Find(t.Context(), dlq.Search{Filter: dlq.Filter{Status: dlq.Pending}})
		if err == nil && len(page.Entries) == 1 {
			detail, err := a.Services().Investigations.Show(t.Context(), page.Entries[0].UUID)
			e = detail.Entry
			return err == nil, fmt.Sprint(err)
		}
		return false, fmt.Sprintf("%d, %v", len(page.Entries), err)
	})
	return e
}

// tree is the spans of a trace.
type tree struct {
	all *tracetest.InMemoryExporter
	id  trace.TraceID
}

// spans are the ended spans of the trace, in the order in which they began.
func (tr tree) spans() tracetest.SpanStubs {
	own := slices.DeleteFunc(tr.all.GetSpans(), func(s tracetest.SpanStub) bool { return s.SpanContext.TraceID() != tr.id })
	slices.SortFunc(own, func(a, b tracetest.SpanStub) int { return a.StartTime.Compare(b.StartTime) })
	return own
}

func (tr tree) named(name string) (found tracetest.SpanStubs) {
	return slices.DeleteFunc(tr.spans(), func(s tracetest.SpanStub) bool { return s.Name != name })
}

func (tr tree) wait(t *testing.T, name string) {
	t.Helper()
	eventually(t, "a span "+name, func() (bool, string) { return len(tr.named(name)) > 0, "there are:\n" + tr.String() })
}

// chain wants one span of each name, each under the one before. Who sent something may end its span after who read it.
func (tr tree) chain(t *testing.T, names ...string) {
	t.Helper()
	var above trace.SpanContext
	for _, name := range names {
		tr.wait(t, name)
		found := tr.named(name)
		if len(found) != 1 {
			t.Fatalf("%d spans are named %s:\n%s", len(found), name, tr)
		}
		if above.IsValid() && found[0].Parent.SpanID() != above.SpanID() {
			t.Errorf("%s is not under the one before:\n%s", name, tr)
		}
		above = found[0].SpanContext
	}
}

// whole wants every span of the trace to be under another one that was exported, but for the root.
func (tr tree) whole(t *testing.T, root string) {
	t.Helper()
	own := tr.spans()
	for _, s := range own {
		switch above := s.Parent.SpanID(); {
		case !above.IsValid() && s.Name != root:
			t.Errorf("%s begins the trace, and not %s:\n%s", s.Name, root, tr)
		case above.IsValid() && !slices.ContainsFunc(own, func(p tracetest.SpanStub) bool { return p.SpanContext.SpanID() == above }):
			t.Errorf("%s is under a span that was not exported:\n%s", s.Name, tr)
		}
	}
}

// String draws it, with its links.
func (tr tree) String() string {
	own := tr.spans()
	here := map[trace.SpanID]bool{}
	for _, s := range own {
		here[s.SpanContext.SpanID()] = true
	}
	var b strings.Builder
	fmt.Fprintf(&b, "trace %s\n", tr.id)
	var draw func(parent trace.SpanID, depth int)
	draw = func(parent trace.SpanID, depth int) {
		for _, s := range own {
			above := s.Parent.SpanID()
			if !here[above] {
				above = trace.SpanID{}
			}
			if above != parent {
				continue
			}
			fmt.Fprintf(&b, "%s%s", strings.Repeat("  ", depth), s.Name)
			if s.Status.Description != "" {
				fmt.Fprintf(&b, "  ! %s", s.Status.Description)
			}
			for _, l := range s.Links {
				fmt.Fprintf(&b, "  → span %s of trace %s", l.SpanContext.SpanID(), l.SpanContext.TraceID())
			}
			b.WriteByte('\n')
			draw(s.SpanContext.SpanID(), depth+1)
		}
	}
	draw(trace.SpanID{}, 0)
	return b.String()
}
