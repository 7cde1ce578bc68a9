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
	// dead or not, so it rests sinkRest times as long as it took, if that is longer, and sinkRarely at most.
	sinkEvery  = time.Minute
	sinkRest   = 100
	sinkRarely = 10 * time.Minute
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
	// place guards which server all this is about; moved says that it is another than at the last look.
	place sync.Mutex
	at    server
	moved atomic.Bool
}

// raiseMarks raises the low-water marks as far as it can be known that nothing below is left, now and
// then. One long write transaction on the outbox delays it; long reading ones do not.
func (s *Store) raiseMarks(ctx context.Context) error {
	w := &s.water
	w.mu.Lock()
	defer w.mu.Unlock()
	now := time.Now()
	s.settleIn()
	if now.Sub(w.swept) >= min(max(sinkEvery, w.sweeping*sinkRest), sinkRarely) {
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
	s.settleIn()
	if err := s.believe(ctx); err != nil {
		return err
	}
	if w.open {
		var closed bool
		var here server
		if err := s.ask(ctx, now, fenceClosed, []any{w.holders}, &closed, &here.started, &here.file); err != nil {
			return fmt.Errorf("look at the transactions on the outbox: %w", err)
		}
		if w.isAt(here) && !closed {
			return nil
		}
		if s.settleIn(); w.open {
			if err := s.closeWater(ctx, here); err != nil {
				return err
			}
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
	var here server
	if err := s.pool.QueryRow(ctx, openFence).Scan(&w.holders, &here.started, &here.file); err != nil {
		return fmt.Errorf("look at the transactions on the outbox: %w", err)
	}
	if !w.isAt(here) { // the newest id was that of the one before
		s.settleIn()
		return nil
	}
	if w.open, w.since = true, now; len(w.holders) > 0 || w.last < w.final.Load()+raiseAfter {
		return nil
	}
	return s.closeWater(ctx, here) // nobody to wait for
}

// ask reads one row, and in the same round trip what is known of markers. Call it with water.mu held.
func (s *Store) ask(ctx context.Context, now time.Time, query string, args []any, dest ...any) error {
	b := &pgx.Batch{}
	b.Queue(query, args...).QueryRow(func(row pgx.Row) error { return row.Scan(dest...) })
	s.markers.queue(b, now)
	return s.pool.Send(ctx, b)
}

// settleIn begins anew where the server is another. Call it with water.mu held.
func (s *Store) settleIn() {
	w := &s.water
	if !w.moved.Swap(false) {
		return
	}
	w.open, w.last, w.next, w.blind, w.swept, w.sweeping = false, 0, nil, false, time.Time{}, 0
}

// closeWater goes on where the fence stands on a server: every id up to the last is final. Call it with water.mu held.
func (s *Store) closeWater(ctx context.Context, here server) error {
	w := &s.water
	w.open = false
	if !w.while(here, func() { w.final.Store(w.last) }) {
		return nil
	}
	if err := s.know(ctx, w.last); err != nil {
		return err
	}
	if err := s.raiseTo(ctx, w.last, here); err != nil {
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

// raiseTo raises the marks of shards that nobody has, up to an id that is final on a server.
func (s *Store) raiseTo(ctx context.Context, id int64, of server) error {
	return pgx.BeginTxFunc(ctx, s.pool, pgx.TxOptions{IsoLevel: pgx.ReadCommitted}, func(tx pgx.Tx) error {
		var locked string
		var here server
		if err := tx.QueryRow(ctx, lockLagging, id, raiseAfter, s.water.blind).Scan(&locked, &here.started, &here.file); err != nil {
			return err
		}
		known := s.water.known()
		if locked == "{}" || here != of || known != nothingKnown && known.of != here {
			return nil
		}
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
