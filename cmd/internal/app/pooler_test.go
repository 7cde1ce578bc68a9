//go:build unix

package app

import (
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/postrider/postrider/cmd/internal/config"
	"github.com/postrider/postrider/internal/testenv/kafkatest"
	"github.com/postrider/postrider/internal/testenv/logtest"
	"github.com/postrider/postrider/internal/testenv/pgbouncer"
	"github.com/postrider/postrider/internal/testenv/pgtest"
	"github.com/postrider/postrider/outbox"
)

// TestBehindAPooler runs everything, migrations first, through PgBouncer in transaction mode: events reach their topic,
// and events that cannot be sent become investigations. Whether the pooler is found or named makes no difference.
func TestBehindAPooler(t *testing.T) {
	t.Parallel()
	for _, mode := range []string{"auto", "transaction"} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			db := pgtest.NewEmpty(t)
			broker := kafkatest.Kfake(t)
			topic, dlq := broker.Topic(t, 2, nil), broker.Topic(t, 1, nil)
			c := settings(t, pgbouncer.Start(t, db.URL, 12), broker.Addrs...)
			c.Database.Pooler, c.DLQ.Topic, c.DLQ.Group, c.Kafka.MaxMessageBytes = mode, dlq, dlq+".group", 4096
			log := &logtest.Buffer{}
			a := run(t, Options{Config: c, Migrate: true, Logger: slog.New(slog.NewTextHandler(log, nil))})
			waitReady(t, a)
			conn := db.Conn(t)
			const n = 30
			var ms []outbox.Message
			for i := range n {
				ms = append(ms, outbox.Message{Topic: topic, Key: fmt.Appendf(nil, "k%d", i%4), Payload: fmt.Appendf(nil, "%d", i)})
			}
			ms = append(ms, outbox.Message{Topic: topic, Key: []byte("large"), Payload: make([]byte, 5000)})
			enqueue(t, conn, ms[:n/2]...)
			enqueue(t, conn, ms[n/2:]...)
			if got := len(broker.ReadAll(t, topic, n)); got != n {
				t.Errorf("%d records arrived, want %d", got, n)
			}
			waitRow(t, conn, "the investigation", `select count(*) = 1 from postrider.dlq_entry`)
			pool, err := OpenPool(t.Context(), config.Database{URL: c.Database.URL, Pooler: mode}, 2)
			if err != nil {
				t.Fatal(err)
			}
			defer pool.Close()
			var one int
			if err := pool.QueryRow(t.Context(), "select $1::int", 1).Scan(&one); err != nil || one != 1 {
				t.Errorf("a command's question: %d, %v", one, err)
			}
			if said := log.String(); strings.Contains(said, "level=ERROR") {
				t.Errorf("the log:\n%s", said)
			}
		})
	}
}
