package relaytest

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/postrider/postrider/internal/relay"
	"github.com/postrider/postrider/internal/testenv/pgtest"
)

// TestHotKey: one key has 20,000 events waiting, or 100,000. Events of ten other keys are among them and behind them, and
// more come meanwhile. Everything arrives once, every key in order, nothing is held, and the log is read in full batches:
// a key that has most of the events is like any other.
func TestHotKey(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ events, relays, batch int }{
		"two relays":        {20_000, 2, 200},
		"one relay":         {20_000, 1, 1000},
		"of 100,000 events": {100_000, 1, 5000},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			const others, rounds = 10, 50
			r := newRig(t)
			topic, dlq := r.broker.Topic(t, 1, nil), r.broker.Topic(t, 1, nil)
			// Round n of the others is among the hot events n*every and following.
			r.exec(`insert into postrider.outbox_event (topic, key, payload)
				select $1, convert_to(k, 'UTF8'), convert_to(n::text, 'UTF8') from (
					select 'hot' as k, n, n as place from generate_series(0, $2::int - 1) n
					union all
					select 'beside-' || k, n, n * ($2::int / $3::int) from generate_series(0, $3::int - 1) n, generate_series(1, $4::int) k) w
				order by place, k`, topic, c.events, rounds, others)
			for range c.relays {
				// The broker of the test may be slow beside other tests, and nothing here is about that.
				r.startWith(dlq, options{engine: func(cfg *relay.Config) { cfg.BatchSize, cfg.PublishTimeout = c.batch, time.Minute }})
			}
			r.until(`(select position >= 2000 from postrider.outbox_progress)`)
			r.exec(`insert into postrider.outbox_event (topic, key, payload)
				select $1, convert_to('beside-' || k, 'UTF8'), convert_to(n::text, 'UTF8') from generate_series($2::int, $3) n, generate_series(1, $4::int) k order by n`,
				topic, rounds, 2*rounds-1, others)
			r.until(drained)
			next := map[string]int{}
			all := c.events + others*2*rounds
			for _, rec := range r.broker.ReadAll(t, topic, all) {
				key := string(rec.Key)
				if want := fmt.Sprint(next[key]); string(rec.Value) != want {
					t.Fatalf("%s of %s is where %s should be", rec.Value, key, want)
				}
				next[key]++
			}
			if next["hot"] != c.events || len(next) != others+1 {
				t.Errorf("%d events of the hot key arrived, and %d keys", next["hot"], len(next))
			}
			for k := range others {
				if n := next[fmt.Sprintf("beside-%d", k+1)]; n != 2*rounds {
					t.Errorf("%d events of key %d arrived, want %d", n, k+1, 2*rounds)
				}
			}
			if n := r.receipts(); n > all/c.batch+20 {
				t.Errorf("%d receipts for %d events in batches of %d", n, all, c.batch)
			}
			if n := pgtest.Value[int](t, r.pool, `select count(*) from pg_sequences where sequencename = 'outbox_hold_hold_id_seq' and last_value is not null`); n != 0 {
				t.Errorf("%d sequences of holds were used", n)
			}
			if n := strings.Count(r.log.String(), "level=ERROR"); n > 0 {
				t.Errorf("%d errors are in the log", n)
			}
		})
	}
}

// receipts counts the receipts of settled batches.
func (r *rig) receipts() int {
	r.Helper()
	return pgtest.Value[int](r, r.pool, `select count(*) from postrider.outbox_receipt where note is null and number > 0 and events <> '{}'`)
}
