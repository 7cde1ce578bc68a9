package soak

import (
	"context"
	"testing"
	"time"

	"github.com/postrider/postrider/internal/testenv/buildtest"
	"github.com/postrider/postrider/internal/testenv/kafkatest"
	"github.com/postrider/postrider/internal/testenv/pgtest"
)

// TestTwoRelays runs two relays on one database, over a backlog and then beside writers, with nothing
// failing: then there must be no duplicate at all.
func TestTwoRelays(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, b *kafkatest.Broker) {
		ctx := t.Context()
		db := pgtest.New(t)
		pool := db.Pool(t)
		topics := []string{b.Topic(t, 4, nil), b.Topic(t, 4, nil)}
		dlq := b.Topic(t, 1, nil)
		w := &Workload{Pool: pool, Topics: topics, Keys: 500, Rate: 2000, Seed: seed(t)}
		backlog, total := 20_000, duration(t, 3*time.Second)
		if total > 30*time.Second {
			// Ten events a transaction: two cores do not carry 5,000 transactions of this kind a second beside
			// two relays, a broker and the checker.
			w.Rate, w.PerTransaction, backlog = 5000, 10, 500_000
		}
		if err := w.Prepare(ctx); err != nil {
			t.Fatal(err)
		}
		if err := w.Load(ctx, backlog); err != nil {
			t.Fatal(err)
		}
		binary := buildtest.Program(t, "cmd/internal/soak/crashchild")
		start := time.Now()
		one := crashchild(t, binary, db.URL, b, dlq, "", 0)
		two := crashchild(t, binary, db.URL, b, dlq, "", 0)
		drained(t, pool)
		draining := time.Since(start)

		writing, stopWriting := context.WithTimeout(ctx, total)
		defer stopWriting()
		if err := w.Run(writing); err != nil {
			t.Fatal(err)
		}
		drained(t, pool)
		one.stop(t)
		two.stop(t)

		t.Logf("backlog %d drained in %v, then %d written in %v", backlog, draining.Round(time.Millisecond), w.Written.Load()-int64(backlog), total)
		v := w.judge(t, b, dlq)
		if v.Duplicates != 0 {
			t.Errorf("%d duplicates although nothing failed", v.Duplicates)
		}
		if v.Delivered != int(w.Written.Load()) {
			t.Errorf("delivered %d of %d", v.Delivered, w.Written.Load())
		}
	})
}
