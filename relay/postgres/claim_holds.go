package postgres

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/postrider/postrider/relay"
	"github.com/postrider/postrider/relay/outbox"
)

// A claim reads the holds with parked events in its shards, in the round trip that locks and reads. Thousands of keys
// that failed would cost each batch as much as its events do, and few of them are in it. So when there were many, the
// next claims ask for the keys that they have found, which is another round trip; now and then one asks for all.
const (
	manyHolds   = 100
	manyHoldsAt = 64 // claims between two that ask for all
)

// heldKeys is what a store knows of how many keys are held.
type heldKeys struct{ rest atomic.Int64 }

// next says whether the next claim should ask for the keys that it has found.
func (m *heldKeys) next() bool { return m.rest.Load() > 0 && m.rest.Add(-1) >= 0 }

// saw notes how many holds a claim that asked for all has read.
func (m *heldKeys) saw(n int) {
	if n > manyHolds {
		m.rest.Store(manyHoldsAt)
	}
}

// queueHolds asks for the holds, in a round trip with others.
func (c *claim) queueHolds(b *pgx.Batch) {
	if c.ofKeys = c.store.held.next(); c.ofKeys {
		b.Queue(claimWideHolds)
	} else {
		b.Queue(claimHolds)
	}
}

// scanHolds reads holds, with a row for each shard of each. n is the number of rows about keys: those of topics and
// partitions are read in any case.
func (c *claim) scanHolds(rows pgx.Rows) (n int, err error) {
	defer rows.Close()
	found := map[int64]*relay.Hold{}
	for rows.Next() {
		var h relay.Hold
		var shard *int16
		var through *int64
		var age int64
		if err := rows.Scan(&h.ID, &h.Scope, &h.Topic, &h.Key, &h.Partition, &h.Partitions, &h.Cause, &age,
			&h.Probes, &h.Draining, &shard, &through); err != nil {
			return n, err
		}
		if h.Scope == relay.ScopeKey {
			n++
		}
		h.Age = time.Duration(age) * time.Microsecond
		known := found[h.ID]
		if known == nil {
			known = &h
			known.Through = map[int16]int64{}
			found[h.ID] = known
		}
		if shard != nil {
			known.Through[*shard] = *through
		}
	}
	for _, h := range found {
		if h.Scope != relay.ScopeDeadLetter {
			c.batch.Holds.Add(h)
		}
	}
	return n, rows.Err()
}

// holdsOfKeys reads the holds of the keys that were found, unless all were asked for. Nobody else can make or end one
// that has parked events in the locked shards, so a later snapshot than that of the events sees the same.
func (c *claim) holdsOfKeys(ctx context.Context, events []outbox.Event) error {
	if !c.ofKeys {
		return nil
	}
	type subject struct{ topic, key string }
	seen := map[subject]bool{}
	var topics []string
	var keys [][]byte
	for i := range events {
		e := &events[i]
		if s := (subject{e.Topic, string(e.Key)}); e.Key != nil && !seen[s] {
			seen[s] = true
			topics, keys = append(topics, e.Topic), append(keys, e.Key)
		}
	}
	if len(keys) == 0 {
		return nil
	}
	rows, err := c.conn.Query(ctx, claimKeyHolds, topics, keys)
	if err != nil {
		return err
	}
	_, err = c.scanHolds(rows)
	return err
}
