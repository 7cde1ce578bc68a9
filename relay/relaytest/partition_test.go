package relaytest

import (
	"context"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/postrider/postrider/relay"
	"github.com/postrider/postrider/relay/postgres"
)

// TestPartitionsUnderLoad: the outbox is partitioned while writers write and relays carry, and its
// partitions come and go under them. Nothing is lost, sent twice or out of order, and what was
// dead-lettered keeps its row when its partition goes.
func TestPartitionsUnderLoad(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	wide, narrow, dlq := r.broker.Topic(t, 4, nil), r.broker.Topic(t, 1, nil), r.broker.Topic(t, 1, nil)
	w := newWorkload(r, 8, wide, narrow)
	r.start(dlq)
	r.start(dlq)
	var wg sync.WaitGroup
	for range 3 {
		rng := rand.New(rand.NewPCG(rand.Uint64(), 1))
		wg.Go(func() {
			for range 8 {
				w.burst(rng, 1, 30)
				// As after some more events, so that partitions fill.
				r.exec(`select setval(pg_get_serial_sequence('postrider.outbox_event', 'id'), nextval(pg_get_serial_sequence('postrider.outbox_event', 'id')) + 200)`)
			}
		})
	}
	conn, err := pgx.Connect(t.Context(), r.pool.Config().ConnString())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.Background())
	r.until(time.Minute, `exists (select from postrider.outbox_event where state = 'published')`)
	began := time.Now()
	if err := postgres.Partition(t.Context(), conn, postgres.PartitionOptions{Rows: 1500}); err != nil {
		t.Fatal(err)
	}
	t.Logf("partitioned within %v", time.Since(began))
	pool, err := postgres.NewPool(t.Context(), r.pool.Config().ConnString(), postgres.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	store := postgres.NewStore(pool, postgres.StoreOptions{})
	ctx, stop := context.WithCancel(t.Context())
	var dropped atomic.Int64
	var rotating sync.WaitGroup
	rotating.Go(func() {
		for ctx.Err() == nil {
			got, err := store.Purge(ctx, relay.PurgeLimits{Kind: relay.PurgePublished, Keep: time.Nanosecond, Rows: 100})
			if err != nil && ctx.Err() == nil {
				t.Error(err)
			}
			dropped.Add(int64(got.Partitions))
			select {
			case <-ctx.Done():
			case <-time.After(20 * time.Millisecond):
			}
		}
	})
	wg.Wait()
	r.until(time.Minute, drained)
	// Most of the writing may have been over before there were partitions: more of it, until a few went.
	more := rand.New(rand.NewPCG(1, 1))
	for deadline := time.Now().Add(time.Minute); dropped.Load() < 3 && time.Now().Before(deadline); {
		r.exec(`select setval(pg_get_serial_sequence('postrider.outbox_event', 'id'), nextval(pg_get_serial_sequence('postrider.outbox_event', 'id')) + 400)`) // as after so many events
		w.burst(more, 1, 3)
		r.until(time.Minute, drained)
	}
	r.until(time.Minute, `not exists (select from pg_class where relname = 'outbox_event_p0')`)
	stop()
	rotating.Wait()
	v := w.verdict(dlq)
	t.Logf("%d partitions are dropped; %s", dropped.Load(), v)
	if err := v.Err(); err != nil || v.Duplicates != 0 {
		t.Errorf("%v, %d duplicates", err, v.Duplicates)
	}
	if dropped.Load() < 3 {
		t.Errorf("%d partitions are dropped, want a few", dropped.Load())
	}
}
