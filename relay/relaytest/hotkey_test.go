package relaytest

import (
	"crypto/sha256"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/postrider/postrider/migrations/pgtest"
	"github.com/postrider/postrider/relay"
)

// besideKeys are n keys of a topic in the shard of another one.
func besideKeys(topic, key string, n int) (keys []string) {
	shard := func(key string) byte { return sha256.Sum256([]byte(topic + "\x00" + key))[0] & 63 }
	for i := 0; len(keys) < n; i++ {
		if k := fmt.Sprintf("beside-%d", i); shard(k) == shard(key) {
			keys = append(keys, k)
		}
	}
	return keys
}

// hotKey is a key with many events waiting, and those who carry them.
type hotKey struct {
	events                 int
	relays, workers, batch int
	// patience is for how many events of the key others may wait.
	patience int
	// whole says that all of its events are to arrive; otherwise the test ends when those of the others have.
	whole bool
}

// TestHotKey: one key has 20,000 events waiting, or 100,000, and behind them in the same shard wait those of ten others.
// These are in the topic long before the hot key is done, also those that come while it is being done, and
// every key is in order. So it is with two relays of three workers, and with a single worker.
func TestHotKey(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]hotKey{
		"two relays":            {events: 20_000, relays: 2, workers: 3, batch: 200, patience: 2000, whole: true},
		"one worker":            {events: 20_000, relays: 1, workers: 1, batch: 1000, patience: 2000, whole: true},
		"100,000 of one worker": {events: 100_000, relays: 1, workers: 1, batch: 1000, patience: 5000},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c.test(t)
		})
	}
}

func (h hotKey) test(t *testing.T) {
	const others, rounds = 10, 5
	r := newRig(t)
	topic, dlq := r.broker.Topic(t, 1, nil), r.broker.Topic(t, 1, nil)
	keys := besideKeys(topic, "hot", others)
	beside := func(from, to int) {
		r.exec(`insert into postrider.outbox_event (topic, key, payload)
			select $1, convert_to(k, 'UTF8'), convert_to(n::text, 'UTF8') from generate_series($3::int, $4) n, unnest($2::text[]) k order by n`, topic, keys, from, to-1)
	}
	r.exec(`insert into postrider.outbox_event (topic, key, payload) select $1, 'hot', convert_to(n::text, 'UTF8') from generate_series(0, $2::int - 1) n`, topic, h.events)
	beside(0, rounds)
	var running []*running
	for range h.relays {
		running = append(running, r.startWith(dlq, options{engine: func(c *relay.Config) { c.Workers, c.BatchSize = h.workers, h.batch }}))
	}
	r.until(time.Minute, `(select count(*) from postrider.outbox_event where key = 'hot' and state = 'published') >= 2000`)
	beside(rounds, 2*rounds)
	hot, arrived := h.events, h.events+others*2*rounds
	if h.whole {
		r.until(2*time.Minute, drained)
		r.until(time.Minute, `not exists (select from postrider.outbox_hold)`)
	} else {
		r.until(2*time.Minute, `not exists (select from postrider.outbox_event where key <> 'hot' and state <> 'published')`)
		for _, e := range running {
			e.halt()
		}
		arrived = pgtest.Value[int](t, r.pool, `select count(*) from postrider.outbox_event where state = 'published'`)
		hot = arrived - others*2*rounds
	}

	next := map[string]int{}
	doneAt := map[string]int{} // how much of the hot key came before the last event of the first rounds
	for _, rec := range r.broker.ReadAll(t, topic, arrived) {
		key := string(rec.Key)
		if want := fmt.Sprint(next[key]); string(rec.Value) != want {
			t.Fatalf("%s of %s is where %s should be", rec.Value, key, want)
		}
		next[key]++
		if key != "hot" {
			doneAt[key] = next["hot"]
			if next[key] <= rounds && next["hot"] > h.patience {
				t.Errorf("event %s of %s waited for %d events of the hot key", rec.Value, key, next["hot"])
			}
		}
	}
	if next["hot"] != hot {
		t.Errorf("%d events of the hot key arrived", next["hot"])
	}
	for _, key := range keys {
		if next[key] != 2*rounds {
			t.Errorf("%d events of %s arrived, want %d", next[key], key, 2*rounds)
		}
		if doneAt[key] > h.events-1000 {
			t.Errorf("the events of %s that came in the middle waited for %d of %d events of the hot key", key, doneAt[key], h.events)
		}
	}
	if n := strings.Count(r.log.String(), "level=ERROR"); n > 0 {
		t.Errorf("%d errors are in the log", n)
	}
}
