package postgres

import (
	"context"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/postrider/postrider/relay"
)

// traffic counts what a pool sends: statements, the round trips they take, and by what asks for a shard.
type traffic struct {
	statements, trips int
	shards            map[int16]int // that were waited for
}

func (s *traffic) saw(sql string, args []any) {
	s.statements++
	if sql == lockShard {
		s.shards[args[0].(int16)]++
	}
}

func (s *traffic) TraceQueryStart(ctx context.Context, _ *pgx.Conn, q pgx.TraceQueryStartData) context.Context {
	s.trips++
	s.saw(q.SQL, q.Args)
	return ctx
}

func (s *traffic) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}

func (s *traffic) TraceBatchStart(ctx context.Context, _ *pgx.Conn, _ pgx.TraceBatchStartData) context.Context {
	s.trips++
	return ctx
}

func (s *traffic) TraceBatchQuery(_ context.Context, _ *pgx.Conn, q pgx.TraceBatchQueryData) {
	s.saw(q.SQL, q.Args)
}

func (s *traffic) TraceBatchEnd(context.Context, *pgx.Conn, pgx.TraceBatchEndData) {}

// counted is another store of the fixture, whose statements are counted.
func (f *fixture) counted() (*Store, *traffic) {
	f.Helper()
	n := &traffic{shards: map[int16]int{}}
	cfg := f.relay.Config()
	cfg.ConnConfig.Tracer = n
	pool, err := pgxpool.NewWithConfig(f.Context(), cfg)
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(pool.Close)
	return NewStore(pool, StoreOptions{}), n
}

// parked parks so many events of so many keys, each key behind a hold that is due.
func (f *fixture) parked(keys, each int) {
	f.Helper()
	f.exec(`insert into postrider.outbox_hold (scope, topic, key, cause, next_probe_at)
		select 'key', 't', ('key ' || k)::bytea, 'retry', now() from generate_series(1, $1::int) k`, keys)
	f.exec(`insert into postrider.outbox_event (topic, key, state, hold_id, updated_at)
		select 't', h.key, 'parked', h.hold_id, now() from postrider.outbox_hold h, generate_series(1, $1::int)`, each)
	f.exec(`insert into postrider.outbox_hold_shard (hold_id, shard)
		select distinct hold_id, shard from postrider.outbox_event where state = 'parked'`)
}

// TestReturningIsCheap: when many keys failed and wait, what brings them back costs by the shard and not by
// the key.
func TestReturningIsCheap(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	const keys, each = 400, 25
	f.parked(keys, each)
	s, cost := f.counted()
	events, holds := 0, 0
	began := time.Now()
	turn := func() relay.Returned {
		got, err := s.Return(t.Context(), 1000, time.Hour)
		if err != nil {
			t.Fatal(err)
		}
		events, holds = events+got.Events, holds+got.Holds
		return got
	}
	for turn().Events > 0 {
		continue
	}
	if events != keys || holds != 0 {
		t.Fatalf("%d probes, %d holds ended; want one probe for each of %d keys", events, holds, keys)
	}
	f.exec(`update postrider.outbox_event set state = 'published', sent_at = now(), updated_at = now() where state = 'pending'`)
	f.exec(`update postrider.outbox_hold set draining = true, next_probe_at = now()`)
	for f.holds() > 0 {
		if got := turn(); got.Events+got.Holds == 0 {
			t.Fatalf("%d events came back, and no more do", events)
		}
	}
	t.Logf("%d events of %d keys: %d statements in %d round trips, %v", events, keys, cost.statements, cost.trips, time.Since(began).Round(time.Millisecond))
	if events != keys*each || holds != keys {
		t.Errorf("%d events came back and %d holds ended, want all", events, holds)
	}
	if most := events / 20; cost.statements > most {
		t.Errorf("%d statements for %d events, want at most %d", cost.statements, events, most)
	}
}
