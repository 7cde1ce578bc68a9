package postgres

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/postrider/postrider/relay"
)

// The low-water marks keep claims from walking over the index entries of settled rows, which stay until
// vacuum can remove them: minutes, or hours beside somebody's long snapshot. A mark must never pass an
// event that is pending or may yet be committed; the fence sees to the second.
const (
	// raiseEvery is how often the marks are looked at, and busyEvery while each look finds busyFrom new ids: beside a
	// long snapshot claims walk over all that was settled since the last two.
	raiseEvery = 500 * time.Millisecond
	busyEvery  = 200 * time.Millisecond
	busyFrom   = 500
	// hurryFirst and hurryEvery are how often at most, when claims of a deep backlog have come to where ids are
	// not final: before any is known to be, and later.
	hurryFirst, hurryEvery = 20 * time.Millisecond, 100 * time.Millisecond
	// raiseAfter is how many ids a mark must be behind to be worth a write.
	raiseAfter = 2000
	// sinkEvery is how often pending events below their mark are looked for. It walks over everything that is there,
	// dead or not, so it rests sinkRest times as long as it took, if that is longer.
	sinkEvery = time.Minute
	sinkRest  = 100
)

// water is a store's progress with the marks.
type water struct {
	mu            sync.Mutex
	looked, swept time.Time
	sweeping      time.Duration // how long the last look for sunken events took
	busy          bool
	// open says that a fence stands: every id up to last is final once the holders have ended.
	open    bool
	last    int64
	since   time.Time
	holders []string
	why     relay.Standstill // why there can be no fence
	// final is the last one of which that was so.
	final atomic.Int64
	marks atomic.Pointer[knownMarks]
	next  *knownMarks // not yet on the disk
	blind bool        // the server does not say what is
}

// raiseMarks raises the low-water marks as far as it can be known that nothing below is left, now and
// then. One long write transaction on the outbox delays it; long reading ones do not.
func (s *Store) raiseMarks(ctx context.Context) error {
	w := &s.water
	w.mu.Lock()
	defer w.mu.Unlock()
	now := time.Now()
	if now.Sub(w.swept) >= max(sinkEvery, w.sweeping*sinkRest) {
		w.swept = now
		if err := s.liftSunken(ctx); err != nil {
			return fmt.Errorf("look for events below the low-water marks: %w", err)
		}
		w.sweeping = time.Since(now)
	}
	every := raiseEvery
	if w.busy {
		every = busyEvery
	}
	if now.Sub(w.looked) < every {
		return nil
	}
	return s.lookAtWater(ctx, now)
}

// hurryMarks does what raiseMarks does, sooner, before a claim that may be large: what cannot be known to be
// final cannot be read densely for long, and not be settled as a range. While a transaction keeps a fence
// open, it looks less and less often.
func (s *Store) hurryMarks(ctx context.Context) error {
	w := &s.water
	if s.lastClaimed.Load() < w.final.Load() || !w.mu.TryLock() {
		return nil
	}
	defer w.mu.Unlock()
	now, pause := time.Now(), hurryEvery
	if w.final.Load() == 0 {
		pause = hurryFirst
	}
	switch {
	case w.last == 0 && !w.looked.IsZero():
		pause = raiseEvery // ids come in blocks, or there are none
	case w.open:
		pause = min(max(pause, now.Sub(w.since)/2), raiseEvery)
	}
	if now.Sub(w.looked) < pause {
		return nil
	}
	return s.lookAtWater(ctx, now)
}

// lookAtWater closes the fence that stands, if it can, and opens the next. Call it with water.mu held.
func (s *Store) lookAtWater(ctx context.Context, now time.Time) error {
	w := &s.water
	w.looked = now
	if err := s.believe(ctx); err != nil {
		return err
	}
	if w.open {
		var closed bool
		if err := s.ask(ctx, now, fenceClosed, []any{w.holders}, &closed); err != nil {
			return fmt.Errorf("look at the transactions on the outbox: %w", err)
		}
		if !closed {
			return nil
		}
		if err := s.closeWater(ctx); err != nil {
			return err
		}
	}
	defer func() {
		if w.last < w.final.Load() { // a restore rewound the ids
			w.final.Store(w.last)
			w.marks.Store(nil)
			w.next = nil
		}
	}()
	newest := w.last
	// In this order: whoever drew an id up to the last one is among the holders, or has ended.
	var why string
	if err := s.ask(ctx, now, readLastID, nil, &w.last, &why); err != nil {
		return fmt.Errorf("read the newest outbox id: %w", err)
	}
	w.busy = w.last >= newest+busyFrom
	if w.why = standstill(why); why != "" {
		return nil
	}
	if err := s.pool.QueryRow(ctx, openFence).Scan(&w.holders); err != nil {
		return fmt.Errorf("look at the transactions on the outbox: %w", err)
	}
	if w.open, w.since = true, now; len(w.holders) > 0 || w.last < w.final.Load()+raiseAfter {
		return nil
	}
	return s.closeWater(ctx) // nobody to wait for
}

// ask reads one row, and in the same round trip what is known of markers. Call it with water.mu held.
func (s *Store) ask(ctx context.Context, now time.Time, query string, args []any, dest ...any) error {
	b := &pgx.Batch{}
	b.Queue(query, args...).QueryRow(func(row pgx.Row) error { return row.Scan(dest...) })
	s.markers.queue(b, now)
	return s.pool.Send(ctx, b)
}

// closeWater goes on where the fence stands: every id up to the last is final. Call it with water.mu held.
func (s *Store) closeWater(ctx context.Context) error {
	w := &s.water
	w.open = false
	w.final.Store(w.last)
	if err := s.know(ctx, w.last); err != nil {
		return err
	}
	if err := s.raiseTo(ctx, w.last); err != nil {
		return fmt.Errorf("raise the low-water marks: %w", err)
	}
	return s.believe(ctx)
}

// standstill is why the marks do not rise.
func (w *water) standstill() relay.Standstill {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.why
}

func (s *Store) raiseTo(ctx context.Context, id int64) error {
	return pgx.BeginTxFunc(ctx, s.pool, pgx.TxOptions{IsoLevel: pgx.ReadCommitted}, func(tx pgx.Tx) error {
		var locked string
		if err := tx.QueryRow(ctx, lockLagging, id, raiseAfter, s.water.blind).Scan(&locked); err != nil || locked == "{}" {
			return err
		}
		known := s.water.known()
		_, err := tx.Exec(ctx, raiseWater, id, known.epochs, known.marks)
		return err
	})
}

// liftSunken lowers marks that are above a pending event.
func (s *Store) liftSunken(ctx context.Context) error {
	known := s.water.known()
	rows, err := s.pool.Query(ctx, findSunken, known.epochs, known.marks)
	if err != nil {
		return err
	}
	type sunken struct {
		shard int16
		id    int64
	}
	found, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (f sunken, err error) {
		err = row.Scan(&f.shard, &f.id)
		return f, err
	})
	if err != nil {
		return err
	}
	for _, f := range found {
		err := s.inShard(ctx, f.shard, func(tx pgx.Tx) error {
			_, err := tx.Exec(ctx, lowerWater, f.shard, f.id)
			return err
		})
		if err != nil && !errors.Is(err, errBusy) {
			return err
		}
	}
	return nil
}
