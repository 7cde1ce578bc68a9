package relaytest

import (
	"crypto/sha256"
	"fmt"
	"strings"
	"testing"
	"time"

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

// TestHotKey: one key has 20,000 events waiting, and behind them in the same shard wait those of ten others.
// These are in the topic long before the hot key is done, also those that come while it is being done, and
// every key is in order. So it is with two relays of three workers, and with a single worker.
func TestHotKey(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ relays, workers, batch int }{"two relays": {2, 3, 200}, "one worker": {1, 1, 1000}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			testHotKey(t, c.relays, func(cfg *relay.Config) { cfg.Workers, cfg.BatchSize = c.workers, c.batch })
		})
	}
}

func testHotKey(t *testing.T, relays int, engine func(*relay.Config)) {
	const hot, others, rounds = 20_000, 10, 5
	r := newRig(t)
	topic, dlq := r.broker.Topic(t, 1, nil), r.broker.Topic(t, 1, nil)
	keys := besideKeys(topic, "hot", others)
	beside := func(from, to int) {
		r.exec(`insert into postrider.outbox_event (topic, key, payload)
			select $1, convert_to(k, 'UTF8'), convert_to(n::text, 'UTF8') from generate_series($3::int, $4) n, unnest($2::text[]) k order by n`, topic, keys, from, to-1)
	}
	r.exec(`insert into postrider.outbox_event (topic, key, payload) select $1, 'hot', convert_to(n::text, 'UTF8') from generate_series(0, $2::int - 1) n`, topic, hot)
	beside(0, rounds)
	for range relays {
		r.startWith(dlq, options{engine: engine})
	}
	r.until(time.Minute, `(select count(*) from postrider.outbox_event where key = 'hot' and state = 'published') >= 2000`)
	beside(rounds, 2*rounds)
	r.until(2*time.Minute, drained)
	r.until(time.Minute, `not exists (select from postrider.outbox_hold)`)

	next := map[string]int{}
	doneAt := map[string]int{} // how much of the hot key came before the last event of the first rounds
	for _, rec := range r.broker.ReadAll(t, topic, hot+others*2*rounds) {
		key := string(rec.Key)
		if want := fmt.Sprint(next[key]); string(rec.Value) != want {
			t.Fatalf("%s of %s is where %s should be", rec.Value, key, want)
		}
		next[key]++
		if key != "hot" {
			doneAt[key] = next["hot"]
			if next[key] <= rounds && next["hot"] > hot/10 {
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
		if doneAt[key] > hot-1000 {
			t.Errorf("the events of %s that came in the middle waited for %d of %d events of the hot key", key, doneAt[key], hot)
		}
	}
	if n := strings.Count(r.log.String(), "level=ERROR"); n > 0 {
		t.Errorf("%d errors are in the log", n)
	}
}
