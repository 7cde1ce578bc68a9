package outboxsync_test

import (
	"testing"

	"github.com/postrider/postrider/internal/testenv/kafkatest"
	"github.com/postrider/postrider/internal/testenv/pgtest"
	"github.com/postrider/postrider/outboxsync"
)

// BenchmarkProcessPending is the action processPending with 500 events that wait: one batch, from reading it to its receipt.
// The broker runs in this process, so its work counts, too.
func BenchmarkProcessPending(b *testing.B) {
	const batch = 500
	db, broker := pgtest.New(b), kafkatest.Kfake(b)
	pool, topic := db.Pool(b), broker.Topic(b, 3, nil)
	outbox, err := outboxsync.Open(b.Context(), outboxsync.Config{DatabaseURL: db.URL, Brokers: broker.Addrs})
	if err != nil {
		b.Fatal(err)
	}
	defer outbox.Close()
	for b.Loop() {
		b.StopTimer()
		if _, err := pool.Exec(b.Context(), `insert into postrider.outbox_event (topic, key, payload)
			select $1, convert_to('k' || n % 50, 'UTF8'), 'v' from generate_series(1, $2::int) n`, topic, batch); err != nil {
			b.Fatal(err)
		}
		b.StartTimer()
		if r, err := outbox.ProcessPending(b.Context(), outboxsync.Options{}); err != nil || r.Succeeded != batch {
			b.Fatalf("%+v, %v", r, err)
		}
	}
	b.ReportMetric(batch*float64(b.N)/b.Elapsed().Seconds(), "events/s")
}
