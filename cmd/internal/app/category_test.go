package app

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"

	"go.opentelemetry.io/otel/trace/noop"

	"github.com/postrider/postrider/cmd/internal/api"
	"github.com/postrider/postrider/consumer"
	"github.com/postrider/postrider/internal/dlq"
	"github.com/postrider/postrider/internal/testenv/kafkatest"
	"github.com/postrider/postrider/internal/testenv/pgtest"
	"github.com/postrider/postrider/message"
	"github.com/postrider/postrider/outbox"
)

// TestCategoryOfAConsumersError: the category that a handler names stands in the dead letter, in its investigation and in
// lists of them. Without a name a permanent error is fatal.
func TestCategoryOfAConsumersError(t *testing.T) {
	t.Parallel()
	broker, db := kafkatest.Kfake(t), pgtest.New(t)
	for _, topic := range []string{"orders", "postrider.consumer.dlq"} {
		broker.CreateTopic(t, topic, 1, nil)
	}
	a := run(t, Options{Config: settings(t, db.URL, broker.Addrs...), Roles: []Role{Relay, Collector, HTTP}})
	waitReady(t, a)
	names := append(message.Categories(), "")
	var handled atomic.Int32
	bill(t, broker, noop.NewTracerProvider(), func(context.Context) error {
		n := handled.Add(1) - 1 // one partition, one at a time
		err := fmt.Errorf("order %d is refused", n)
		if name := names[n%int32(len(names))]; name != "" {
			return consumer.PermanentAs(name, err)
		}
		return consumer.Permanent(err)
	})
	conn := db.Conn(t)
	// The first investigations are copied into their table. An investigation of a closed cause is inserted.
	for round := range 2 {
		for n := range names {
			enqueue(t, conn, outbox.Message{Topic: "orders", Key: []byte("k"), Payload: fmt.Appendf(nil, "%d", n)})
		}
		var found []dlq.Entry
		eventually(t, "the investigations", func() (bool, string) {
			page, err := a.Services().Investigations.Find(t.Context(), dlq.Search{Filter: dlq.Filter{Status: dlq.Pending}})
			found = page.Entries
			return err == nil && len(found) == len(names), fmt.Sprint(found, err)
		})
		for _, e := range found {
			var n int
			if _, err := fmt.Sscanf(e.ErrorMessage, "order %d is refused", &n); err != nil {
				t.Fatal(e.ErrorMessage, err)
			}
			want := cmp.Or(names[n%len(names)], message.Fatal)
			detail, err := a.Services().Investigations.Show(t.Context(), e.UUID)
			if err != nil || len(detail.Letters) != 1 {
				t.Fatalf("order %d: %+v, %v", n, detail.Letters, err)
			}
			if listed := *api.NewEntry(e).ErrorCategory; listed != want || detail.Entry.Category() != want || detail.Letters[0].Category() != want {
				t.Errorf("round %d, order %d: the list says %s, the investigation %s, its letter %s; want %s", round, n, listed, detail.Entry.Category(), detail.Letters[0].Category(), want)
			}
		}
		pgtest.Exec(t, conn, `update postrider.dlq_entry set resolution_status = 'cancelled', resolution_timestamp = now()`)
	}
	var named []string
	for _, r := range broker.ReadAll(t, "postrider.consumer.dlq", 2*len(names)) {
		for _, h := range r.Headers {
			if h.Key == message.HeaderErrorCategory {
				named = append(named, string(h.Value))
			}
		}
	}
	if want := "validation transient fatal validation transient fatal"; strings.Join(named, " ") != want {
		t.Errorf("the letters name %q, want %s", named, want)
	}
}
