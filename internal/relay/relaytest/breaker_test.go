package relaytest

import (
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/postrider/postrider/internal/relay"
	"github.com/postrider/postrider/internal/relay/postgres"
	"github.com/postrider/postrider/internal/testenv/pgtest"
)

// TestGoodEventsPassABreaker: of one topic 4,000 bad events and 800 good ones wait, and the head of the queue is all bad.
// Every good event passes by itself, also if its key has bad events. The circuit breaker keeps the bad events beyond the
// limit. A release tries each of them exactly once more. Giving up by hand gives up exactly the events that it kept. With
// BreakerEvents -1, all the events that it keeps are given up.
func TestGoodEventsPassABreaker(t *testing.T) {
	t.Parallel()
	const bad, good, limit = 4_000, 800, 100
	r := newRig(t)
	topic, dlq := r.broker.Topic(t, 3, nil), r.broker.Topic(t, 1, nil)
	store := postgres.NewStore(r.pool, postgres.StoreOptions{})
	// A header's value must be a string.
	write := func(key string, from, n int, headers string) {
		r.exec(`insert into postrider.outbox_event (topic, key, payload, headers)
			select $1, convert_to($2 || n % 500, 'UTF8'), convert_to(n::text, 'UTF8'), $5::jsonb from generate_series($3::int, $3::int + $4::int - 1) n`, topic, key, from, n, headers)
	}
	write("bad", 0, bad/2, `{"a": 1}`)
	for i := range 10 {
		write("bad", bad/2+i*bad/20, bad/40, `{"a": 1}`)
		write("shared", 0, bad/40, `{"a": 1}`)
		write("shared", i*good/20, good/20, `{}`)
		write("good", i*good/20, good/20, `{}`)
	}
	limited := options{engine: func(c *relay.Config) { c.BatchSize = 400 }, // the head of the queue is five batches
		topic: func(s *relay.TopicSettings) { s.BreakerEvents, s.BreakerWindow = limit, time.Hour }}
	e := r.startWith(dlq, limited)
	// waits waits until all that is bad is either a dead letter or behind the breaker, which rests, and was looked at since then.
	// It was never sent, and so counts no attempt.
	waits := func(kept, given int, since time.Time) {
		t.Helper()
		r.until(`exists (select from postrider.outbox_hold h where h.scope = 'failure' and not h.draining and h.asked is null
				and (select count(*) = $1 and max(attempts) = 0 and min(updated_at) > $3 from postrider.outbox_exception x where x.hold_id = h.hold_id and x.sending_since is null))
			and (select count(*) = $2 from postrider.outbox_exception x where x.state = 'dead_lettered')
			and not exists (select from postrider.outbox_exception where state = 'exhausted')
			and not exists (select from postrider.outbox_hold where scope <> 'failure')`, kept, given, since)
	}
	r.until(`exists (select from postrider.outbox_hold where scope = 'failure')`)
	r.exec(`update postrider.outbox_hold set next_probe_at = 'infinity' where scope = 'failure'`) // no probe by itself
	r.wantGood(topic, good)
	waits(bad-limit, limit, time.Time{})
	released := pgtest.Value[time.Time](t, r.pool, `select clock_timestamp()`)
	if got := r.release(store, r.breaker()); got.Cause != relay.CauseBreaker {
		t.Fatalf("release: %+v", got)
	}
	waits(bad-limit, limit, released)
	write("good", good/2, 100, `{}`)
	r.wantGood(topic, good+100)
	breaker := r.breaker()
	if err := pgx.BeginFunc(t.Context(), r.pool, func(tx pgx.Tx) error { _, err := store.GiveUp(t.Context(), tx, breaker); return err }); err != nil {
		t.Fatalf("give up: %v", err)
	}
	r.until(drained)
	r.until(`not exists (select from postrider.outbox_hold)`)
	given := func(what string, want int) {
		t.Helper()
		if n := pgtest.Value[int](t, r.pool, `select count(*) from postrider.outbox_exception where state = 'dead_lettered' and episode = 1 and last_error_code = 'INVALID_HEADERS'`); n != want {
			t.Errorf("%s: %d events are dead-lettered, want %d", what, n, want)
		}
		if n := len(r.broker.ReadAll(t, dlq, want)); n != want {
			t.Errorf("%s: %d dead letters, want %d", what, n, want)
		}
	}
	given("given up by hand", bad)

	write("bad", bad, 500, `{"a": 1}`)
	waits(500, bad, released)
	e.halt()
	limited.topic = func(s *relay.TopicSettings) { s.BreakerEvents = -1 }
	r.startWith(dlq, limited)
	write("bad", bad+500, 500, `{"a": 1}`)
	r.until(drained)
	r.until(`not exists (select from postrider.outbox_hold)`)
	given("storm_events off", bad+1000)
	r.wantGood(topic, good+100)
}

func (r *rig) breaker() int64 {
	r.Helper()
	return pgtest.Value[int64](r, r.pool, `select hold_id from postrider.outbox_hold where scope = 'failure'`)
}

// release releases a hold, as an operator does.
func (r *rig) release(store *postgres.Store, hold int64) (got postgres.Released) {
	r.Helper()
	err := pgx.BeginFunc(r.Context(), r.pool, func(tx pgx.Tx) (err error) {
		got, err = store.Release(r.Context(), tx, hold)
		return err
	})
	if err != nil {
		r.Fatalf("release hold %d: %v", hold, err)
	}
	return got
}

// wantGood waits until so many events are published, and checks that these are in the topic, once and in order.
func (r *rig) wantGood(topic string, n int) {
	r.Helper()
	r.until(`(select count(*) from postrider.v_outbox_event where state = 'published') = $1`, n)
	records := r.broker.ReadAll(r, topic, n)
	last := map[string]int{}
	for _, rec := range records {
		var at int
		if _, err := fmt.Sscan(string(rec.Value), &at); err != nil {
			r.Fatal(err)
		}
		if before, seen := last[string(rec.Key)]; seen && at <= before {
			r.Errorf("%d of %s arrived after %d", at, rec.Key, before)
		}
		last[string(rec.Key)] = at
	}
	if len(records) != n {
		r.Errorf("%d events are in the topic, want %d", len(records), n)
	}
}
