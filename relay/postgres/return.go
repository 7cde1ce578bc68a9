package postgres

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/postrider/postrider/relay"
)

const (
	// crowdTurn is how many events of a crowded key come back at once.
	crowdTurn = 250
	// dueAtOnce is how many due holds a turn looks at; the next turn begins behind them.
	dueAtOnce = 500
	// shardsAtOnce is to how many shards events come back in one transaction, up to the limit in each; more
	// shards, which only waiting brings, share as much.
	shardsAtOnce = 8
	// minPatience and maxPatience bound how long a turn waits for locks, all in all.
	minPatience, maxPatience = 50 * time.Millisecond, 500 * time.Millisecond
)

// rotation is where the turns have come to, so that everything has its turn.
type rotation struct {
	mu sync.Mutex
	// behind is the last hold that was looked at; nil begins anew. A round goes up to what was due when it began:
	// where as many become due all the time as a turn looks at, those before them have their turn again all the same.
	behind *time.Time
	hold   int64
	until  *time.Time
	// waited is the shard that was waited for last.
	waited int16
}

// Return implements relay.Store. Every change is made under the locks of the shards it concerns, in the order
// shards, holds, holds' shards, events, which is the order of settling. What is free comes first; then it
// waits, for one busy shard after the other, and not for long.
func (s *Store) Return(ctx context.Context, limit int, grace time.Duration) (_ relay.Returned, err error) {
	defer s.judge(&err, true)
	total, err := s.returnDue(ctx, limit, grace)
	if err == nil && total == (relay.Returned{}) {
		total.Next, err = s.untilDue(ctx)
	}
	// Last, and whatever became of the rest: nobody waits for the marks.
	err = errors.Join(err, s.raiseMarks(ctx))
	total.Standstill = s.water.standstill()
	return total, err
}

func (s *Store) returnDue(ctx context.Context, limit int, grace time.Duration) (relay.Returned, error) {
	if err := s.pullIn(ctx, grace); err != nil {
		return relay.Returned{}, err
	}
	began := time.Now()
	t := &turn{store: s, limit: limit, grace: grace,
		scheduled: map[int16]bool{}, holds: map[int16][]int64{}, probed: map[int64]bool{}}
	if err := t.look(ctx); err != nil {
		return relay.Returned{}, fmt.Errorf("find what is due: %w", err)
	}
	if err := t.takeFree(ctx); err != nil {
		return t.total, err
	}
	// Waiting takes at most half of the time while others can be served.
	patience := maxPatience
	if t.total != (relay.Returned{}) {
		patience = min(max(time.Since(began), minPatience), maxPatience)
	}
	return t.total, t.await(ctx, time.Now().Add(patience))
}

// turn is one look at what is due, and what became of it.
type turn struct {
	store *Store
	limit int
	grace time.Duration
	final int64
	total relay.Returned
	// shards are those with something due that were not locked yet: scheduled events, or holds.
	shards    []int16
	scheduled map[int16]bool
	holds     map[int16][]int64
	// empty are due holds without parked events.
	empty []int64
	// probed are holds that let one through, in whichever of their shards was free first.
	probed map[int64]bool
}

// look finds the shards and holds that are due.
func (t *turn) look(ctx context.Context) error {
	s, r := t.store, &t.store.rotation
	r.mu.Lock()
	behind, hold, until := r.behind, r.hold, r.until
	r.mu.Unlock()
	due := map[int16]bool{}
	found, inCommitOrder := 0, false
	err := s.inOneRoundTrip(ctx, func(b *pgx.Batch) {
		s.clock.ask(b)
		b.Queue(dueShards).Query(func(rows pgx.Rows) error {
			shards, err := pgx.CollectRows(rows, pgx.RowTo[int16])
			for _, shard := range shards {
				due[shard], t.scheduled[shard] = true, true
			}
			return err
		})
		b.Queue(dueHolds, behind, hold, dueAtOnce, until).Query(func(rows pgx.Rows) error {
			var at time.Time
			var shards []int16
			var fenced bool
			_, err := pgx.ForEachRow(rows, []any{&hold, &at, &fenced, &shards}, func() error {
				found++
				inCommitOrder = inCommitOrder || fenced
				behind = new(at)
				for _, shard := range shards {
					due[shard] = true
					t.holds[shard] = append(t.holds[shard], hold)
				}
				if len(shards) == 0 {
					t.empty = append(t.empty, hold)
				}
				return nil
			})
			return err
		})
	})
	if err != nil {
		return err
	}
	if inCommitOrder {
		// Asked here, before their events are read, and not taken from the claims: these ask only while a topic is
		// in commit order by the settings, and what was parked before must come back afterwards too.
		if t.final, _, _, err = s.order.final(ctx, s.pool); err != nil {
			return err
		}
	}
	t.shards = slices.Sorted(maps.Keys(due))
	anew := found == 0 && behind != nil
	switch {
	case found < dueAtOnce:
		behind, hold, until = nil, 0, nil
	case until == nil:
		until = new(s.clock.now())
	}
	r.mu.Lock()
	r.behind, r.hold, r.until = behind, hold, until
	r.mu.Unlock()
	if anew {
		return t.look(ctx)
	}
	return nil
}

// takeFree serves everything that nobody else works on.
func (t *turn) takeFree(ctx context.Context) error {
	for group := range slices.Chunk(slices.Clone(t.shards), shardsAtOnce) {
		if group = slices.DeleteFunc(group, t.done); len(group) == 0 {
			continue
		}
		if err := t.serve(ctx, group, 0); err != nil {
			return err
		}
	}
	return t.end(ctx, t.empty, 0)
}

// done reports whether nothing is due in a shard any more but what was probed in another one.
func (t *turn) done(shard int16) bool {
	return !t.scheduled[shard] && !slices.ContainsFunc(t.holds[shard], func(hold int64) bool { return !t.probed[hold] })
}

// await waits for what is left, one lock after the other. Whoever waits for a shard has it before the next
// claim; and a claim that ends frees other shards with it, which are there to take in that moment.
func (t *turn) await(ctx context.Context, deadline time.Time) error {
	r := &t.store.rotation
	for {
		left := time.Until(deadline)
		if left < time.Millisecond {
			return nil
		}
		if t.shards = slices.DeleteFunc(t.shards, t.done); len(t.shards) == 0 {
			break
		}
		r.mu.Lock()
		first := max(slices.IndexFunc(t.shards, func(shard int16) bool { return shard > r.waited }), 0)
		r.waited = t.shards[first]
		r.mu.Unlock()
		order := append(slices.Clone(t.shards[first:]), t.shards[:first]...)
		switch err := t.serve(ctx, order, left); {
		case errors.Is(err, errBusy): // the time is over
			return nil
		case err != nil:
			return err
		}
	}
	for len(t.empty) > 0 {
		left := time.Until(deadline)
		if left < time.Millisecond {
			return nil
		}
		switch err := t.end(ctx, t.empty[:1], left); {
		case errors.Is(err, errBusy):
			return nil
		case err != nil:
			return err
		}
	}
	return nil
}

// serve brings back what is due in those of the shards that are free. With patience it waits so long for the
// first of them before it looks for the others.
func (t *turn) serve(ctx context.Context, shards []int16, patience time.Duration) error {
	var holds []int64
	for _, shard := range shards {
		for _, hold := range t.holds[shard] {
			if !t.probed[hold] {
				holds = append(holds, hold)
			}
		}
	}
	slices.Sort(holds)
	holds = slices.Compact(holds)

	var locked []int16
	var scheduled, parked int
	var ended int64
	var probed []int64
	known := t.store.water.known()
	limit := max(t.limit*shardsAtOnce/max(len(shards), shardsAtOnce), 1)
	err := t.store.inOneRoundTrip(ctx, func(b *pgx.Batch) {
		if patience > 0 {
			b.Queue(waitFor, lockTimeout(patience))
			b.Queue(lockShard, shards[0])
		}
		b.Queue(lockFreeShards, shards).QueryRow(func(row pgx.Row) error { return row.Scan(nil, &locked) })
		b.Queue(returnScheduled, limit).QueryRow(func(row pgx.Row) error { return row.Scan(&scheduled) })
		if len(holds) == 0 {
			return
		}
		b.Queue(returnParked, holds, limit, t.final, micros(t.grace), crowdTurn, known.epochs, known.marks).QueryRow(func(row pgx.Row) error {
			return row.Scan(&parked, &probed, nil)
		})
		b.Queue(lockEmptied)
		b.Queue(endHolds).Exec(func(tag pgconn.CommandTag) error { ended = tag.RowsAffected(); return nil })
	})
	if err != nil {
		if errors.Is(err, errBusy) {
			return err
		}
		return fmt.Errorf("return events to shards %v: %w", shards, err)
	}
	t.total.Events += scheduled + parked
	t.total.Holds += int(ended)
	for _, hold := range probed {
		t.probed[hold] = true
	}
	t.shards = slices.DeleteFunc(t.shards, func(shard int16) bool { return slices.Contains(locked, shard) })
	return nil
}

// end ends holds that have nothing behind them, if nobody parks behind them just now. With patience it waits
// so long for the first of them.
func (t *turn) end(ctx context.Context, holds []int64, patience time.Duration) error {
	if len(holds) == 0 {
		return nil
	}
	var locked []int64
	var ended int64
	err := t.store.inOneRoundTrip(ctx, func(b *pgx.Batch) {
		if patience > 0 {
			b.Queue(waitFor, lockTimeout(patience))
			b.Queue(lockHold, holds[0])
		}
		b.Queue(lockEmptyHolds, holds).QueryRow(func(row pgx.Row) error { return row.Scan(nil, &locked) })
		b.Queue(endHolds).Exec(func(tag pgconn.CommandTag) error { ended = tag.RowsAffected(); return nil })
	})
	if err != nil {
		if errors.Is(err, errBusy) {
			return err
		}
		return fmt.Errorf("end holds without events: %w", err)
	}
	t.total.Holds += int(ended)
	if patience > 0 {
		locked = holds // it was waited for; if it is not due any more that is settled too
	}
	t.empty = slices.DeleteFunc(slices.Clone(t.empty), func(hold int64) bool { return slices.Contains(locked, hold) })
	return nil
}

// waitFor bounds the waits for locks of a transaction.
const waitFor = "select set_config('lock_timeout', $1, true)"

func lockTimeout(d time.Duration) string { return fmt.Sprintf("%dms", max(d.Milliseconds(), 1)) }
