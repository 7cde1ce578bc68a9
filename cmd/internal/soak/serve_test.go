package soak

import (
	"context"
	"testing"
	"time"

	"github.com/postrider/postrider/internal/testenv/buildtest"
	"github.com/postrider/postrider/internal/testenv/kafkatest"
	"github.com/postrider/postrider/internal/testenv/pgtest"
)

// TestServeKilled kills the whole product, relay and collector in one process, at random moments, and
// judges the end of the road too: each event that was given up has one investigation and one letter.
func TestServeKilled(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, b *kafkatest.Broker) {
		ctx := t.Context()
		db := pgtest.New(t)
		pool := db.Pool(t)
		topics := []string{b.Topic(t, 4, nil), b.Topic(t, 2, nil)}
		dlq := b.Topic(t, 3, nil)
		w := &Workload{Pool: pool, Topics: topics, Keys: 500, Rate: 1000, PoisonEvery: 200, Seed: seed(t)}
		if err := w.Prepare(ctx); err != nil {
			t.Fatal(err)
		}
		binary := buildtest.Program(t, "cmd/postrider")
		start := func() *process {
			return run(t, binary, []string{"serve", "--http", "127.0.0.1:0"}, db.URL, b, "DLQ_TOPIC="+dlq, "DLQ_GROUP="+dlq+".collector", "LOG_LEVEL=info")
		}
		kills := 0
		w.runUnder(t, duration(t, 5*time.Second), 600*time.Millisecond, 1200*time.Millisecond, func() bool { return kills > 0 }, func(writing context.Context, pause time.Duration) {
			p := start()
			if p.killed(writing, pause) {
				t.Fatalf("serve ended by itself:\n%s", p.log)
			}
			kills++
		})
		last := start()
		last.lastWords(t, b, dlq+".collector")
		drained(t, pool)
		until(t, pool, "dead letters wait for the collector", `select count(*) from postrider.outbox_exception e
			where e.state = 'dead_lettered' and not exists (select from postrider.dlq_letter l where l.event_id = e.event_id)`)
		last.stop(t)

		t.Logf("%d kills", kills)
		v := w.judge(t, b, dlq)
		var letters, entries, pending, occurrences int
		if err := pool.QueryRow(ctx, `select (select count(*) from postrider.dlq_letter), count(*),
			count(distinct subject_id) filter (where resolution_status = 'pending'), coalesce(sum(occurrences), 0)
			from postrider.dlq_entry`).Scan(&letters, &entries, &pending, &occurrences); err != nil {
			t.Fatal(err)
		}
		if v.DeadLettered == 0 || letters != v.DeadLettered || entries != v.DeadLettered || pending != v.DeadLettered || occurrences != v.DeadLettered {
			t.Errorf("%d events were given up: %d letters, %d investigations, %d of them pending, %d occurrences",
				v.DeadLettered, letters, entries, pending, occurrences)
		}
	})
}
