package relay

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"
)

// standbyPause is how often a standby tries to lead: how long a takeover takes.
const standbyPause = 200 * time.Millisecond

// manyGaps is the number of gaps up to which each receipt has them all; with more, one receipt of gapsEvery does.
const (
	manyGaps  = 200
	gapsEvery = 500
)

// longTerm is how long a term must have worked so that its end is a failure of its own and not one more of the same.
const longTerm = 5 * time.Second

// settleTimeout bounds each write, also after the relay was told to stop.
const settleTimeout = 10 * time.Second

// carefulAfter is how many deaths over the same events make batches smaller.
const carefulAfter = 3

// settleAtOnce is how many receipts are written in one transaction at most. Once these have settleRows exceptions, no other receipt goes
// with them: settleTimeout bounds the transaction, and where a topic is missing each event of a large batch is one.
const (
	settleAtOnce = 16
	settleRows   = 10_000
)

// settleApart is the least time between two plain receipts. After a kill the events of that time are sent again. A
// transaction for each small batch costs the database more than reading the batch.
const settleApart = 10 * time.Millisecond

// runLeader leads whenever no other relay does, until ctx ends.
func (r *Relay) runLeader(ctx context.Context) {
	standby := newIdle(standbyPause, standbyPause, 0)
	r.loop(ctx, "lead", func(bounded context.Context) (int, error) {
		began := time.Now()
		l, err := r.cfg.Store.Lead(bounded, r.cfg.Worker)
		if err != nil {
			return 0, fmt.Errorf("try to lead: %w", err)
		}
		if l == nil {
			return 0, nil
		}
		err = newTerm(r, l).run(ctx)
		if err != nil && time.Since(began) > longTerm {
			// It worked: what ended it is no reason to wait longer each time.
			r.metrics.failed("lead", err)
			r.cfg.Observer.Worked("lead", err)
			r.cfg.Logger.Error("the term ended", append([]any{"err", err}, storeFields(err)...)...)
			return 1, nil
		}
		return 1, err
	}, standby)
}

// term is one leadership at work: a reader, a sender and a settler, one behind the other, and a loop that looks after
// holds. If one of them fails, the term ends: everything that was read and not settled is thrown away, and the next term
// begins where the newest receipt is.
type term struct {
	*Relay
	leader Leadership
	began  Began
	gaps   gapTracker
	book   *holdBook

	// position is how far the log was read. waitsForLook says that events in commit order wait for a look.
	position     int64
	waitsForLook bool
	batches      chan *logBatch
	// receipts are for the settler, in the order of decisions. room has a value for each that may be there.
	receipts chan *settlement
	room     chan struct{}
	// careful is the largest batch while relays die; 0 is no limit. It doubles with each batch that is written down.
	careful atomic.Int64
	// dispatches has a value for each batch that is on its way from behind holds.
	dispatches chan struct{}
	holdIDs    holdIDs
	// once ends the term when there is nothing more to do; nil for one that goes on.
	once *onceOnly
}

// logBatch is a page on its way to the sender.
type logBatch struct {
	Page
	position          int64
	forgotten, gaps   Ranges
	began, readBefore time.Time
}

// settlement is a receipt on its way to the settler.
type settlement struct {
	receipt *Receipt
	plan    *plan
	pass    *pass
	// sent are the messages that were acknowledged: not to be sent again if the receipt cannot be written.
	sent func() []Message
	done chan struct{} // closed when it is written
}

func newTerm(r *Relay, l Leadership) *term {
	b := l.Began()
	t := &term{Relay: r, leader: l, began: b, position: b.Position, book: newHoldBook(b.Holds),
		batches: make(chan *logBatch), receipts: make(chan *settlement, settleAtOnce),
		room: make(chan struct{}, settleAtOnce)}
	t.gaps.restore(b.Gaps)
	t.dispatches = make(chan struct{}, r.cfg.Dispatches)
	t.holdIDs.draw = l.HoldIDs
	if b.Deaths >= carefulAfter {
		t.careful.Store(max(1, int64(r.cfg.BatchSize)>>(2*(b.Deaths-carefulAfter+1))))
	}
	return t
}

// errHandOver ends a term whose relay is told to stop.
var errHandOver = errors.New("the relay stops")

// run works until ctx ends, which is no error, or something fails.
func (t *term) run(ctx context.Context) error {
	level := slog.LevelInfo
	if t.once != nil { // an action says what it did
		level = slog.LevelDebug
	}
	t.cfg.Logger.Log(ctx, level, "leading", "term", t.began.Term, "position", t.began.Position, "gaps", t.began.Gaps.Len(), "holds",
		len(t.began.Holds))
	t.metrics.leading.Set(1)
	t.cfg.Observer.Leads(true)
	defer func() {
		t.metrics.leading.Set(0)
		t.cfg.Observer.Leads(false)
	}()
	if c := t.careful.Load(); c > 0 {
		t.metrics.careful.Set(1)
		t.cfg.Logger.Warn("relays died while these events were on their way: smaller batches find the one that kills, if one does",
			"deaths", t.began.Deaths, "batch_size", c, "position", t.began.Position)
	}
	defer t.metrics.careful.Set(0)
	work, stop := context.WithCancelCause(context.WithoutCancel(ctx))
	defer stop(nil)
	fail := func(err error) {
		if err != nil {
			stop(err)
		}
	}
	var readers, workers sync.WaitGroup
	settled := make(chan struct{})
	workers.Go(func() {
		select {
		case <-t.leader.Lost():
			fail(fmt.Errorf("%w: its session is gone", ErrNotLeading))
		case <-work.Done():
		}
	})
	// Reading stops first; events that were read are still sent and settled.
	reading, stopReading := context.WithCancel(work)
	defer stopReading()
	workers.Go(func() {
		select {
		case <-ctx.Done():
			stopReading()
			<-work.Done()
		case <-work.Done():
		}
		t.book.mu.Lock() // plans that wait for holds see that the term is over
		t.book.changed.Broadcast()
		t.book.mu.Unlock()
	})
	readers.Go(func() {
		defer close(t.batches)
		fail(t.read(reading))
	})
	readers.Go(func() { fail(t.send(work, reading)) })
	readers.Go(func() { t.tendHolds(reading, work, fail) })
	go func() {
		defer close(settled)
		t.settle(work, fail)
	}()
	readers.Wait()
	close(t.receipts)
	<-settled
	err := context.Cause(work)
	stop(errHandOver)
	workers.Wait()
	ending, cancel := context.WithTimeout(context.WithoutCancel(ctx), settleTimeout)
	defer cancel()
	if err != nil {
		cancel() // only let go
	}
	t.leader.End(ending)
	if err != nil && !errors.Is(err, errHandOver) {
		return err
	}
	return nil
}

// settle writes receipts in order; receipts that are there at the same time go into one transaction. A receipt that cannot
// be written ends the term at once, and none after it is written.
func (t *term) settle(ctx context.Context, fail func(error)) {
	var last time.Time
	for s := range t.receipts {
		<-t.room
		group := t.gather(ctx, s, last)
		last = time.Now()
		if ctx.Err() == nil {
			err := t.settleGroup(ctx, group)
			if err == nil {
				continue
			}
			fail(err)
		} else {
			for _, s := range group {
				s.pass.close(context.Cause(ctx))
			}
		}
		// This process does not send acknowledged events again.
		for _, s := range group {
			if s.sent != nil {
				t.cfg.Publisher.Remember(s.sent())
			}
		}
	}
}

// gather returns a receipt with the receipts that follow it. A plain receipt waits for more until settleApart after the one
// before: no other part of the relay waits for it.
func (t *term) gather(ctx context.Context, s *settlement, last time.Time) []*settlement {
	group, rows := []*settlement{s}, s.receipt.rows()
	// A hold that ends makes room for the next hold of its subject. One transaction puts holds in place before it ends
	// others, so the next receipt is not in the same one.
	for len(s.receipt.Ended) == 0 && len(group) < settleAtOnce && rows < settleRows {
		var next *settlement
		pause := settleApart - time.Since(last)
		if !s.receipt.Plain() || t.once != nil || t.careful.Load() > 0 {
			pause = 0
		}
		if pause <= 0 {
			select {
			case next = <-t.receipts:
			default:
			}
		} else {
			due := time.NewTimer(pause)
			select {
			case next = <-t.receipts:
			case <-due.C:
			case <-ctx.Done():
			}
			due.Stop()
		}
		if next == nil {
			break
		}
		<-t.room
		group, s, rows = append(group, next), next, rows+next.receipt.rows()
	}
	return group
}

func (t *term) settleGroup(ctx context.Context, group []*settlement) error {
	bounded, cancel := context.WithTimeout(ctx, settleTimeout)
	defer cancel()
	rs := make([]*Receipt, len(group))
	for i, s := range group {
		rs[i] = s.receipt
		bounded = s.pass.settle(bounded)
	}
	err := t.leader.Settle(bounded, rs)
	for _, s := range group {
		t.settledOne(s, err)
	}
	if err != nil {
		return fmt.Errorf("settle %d receipts: %w", len(group), err)
	}
	return nil
}

func (t *term) settledOne(s *settlement, err error) {
	r := s.receipt
	c := r.Counts()
	s.pass.settled(c.Processed, r.Sent, c.Failed, 0, err)
	s.pass.close(err)
	if err != nil {
		return
	}
	t.book.settled(s.plan)
	if t.once != nil {
		returned := 0
		if s.plan != nil && s.plan.taken {
			returned = len(s.plan.events)
		}
		t.once.count(r, returned)
	}
	if s.plan == nil || !s.plan.taken { // sendTaken counts taken events
		t.metrics.settled(actionPublish, c.Processed)
	}
	if s.plan != nil {
		t.metrics.unsent(s.plan.unsent)
	}
	t.progress(s)
	if s.plan != nil && len(r.Holds)+len(r.Exceptions) > 0 {
		t.logDecided(s.plan)
		t.wakeHolds()
	}
	close(s.done)
}

// progress doubles the batches of a careful term, because the events that were written down killed no relay. So the batch
// that kills next begins at least half as near to the event that does it, and if no event kills, batches are soon full.
func (t *term) progress(s *settlement) {
	c := t.careful.Load()
	if c == 0 || len(s.receipt.Events) == 0 {
		return
	}
	if c *= 2; c >= int64(t.cfg.BatchSize) {
		c = 0
		t.metrics.careful.Set(0)
		t.cfg.Logger.Info("no event killed the relay: batches have their full size again", "position", s.receipt.Position)
	}
	t.careful.Store(c)
}

func (r *Relay) wakeHolds() {
	select {
	case r.holdWake <- struct{}{}:
	default:
	}
}

// decide calls f with book.mu held, and hands the receipt to the settler before another goroutine decides. So receipts are
// written in the order of decisions, because one may be about a hold that another puts in place or ends. Without a receipt
// nothing is to be written. p is the plan that was sent and outcomes what became of it; both are nil where nothing was sent.
func (t *term) decide(ctx context.Context, p *plan, outcomes []Outcome, pass *pass, f func() (*Receipt, error)) (*settlement, error) {
	s := &settlement{plan: p, pass: pass, done: make(chan struct{})}
	if p != nil {
		s.sent = func() []Message { return delivered(p.messages, outcomes) }
	}
	var err error
	select {
	case t.room <- struct{}{}:
		t.book.mu.Lock()
		if s.receipt, err = f(); err == nil && s.receipt != nil {
			t.receipts <- s
		} else {
			<-t.room
		}
		t.book.mu.Unlock()
	case <-ctx.Done():
		err = context.Cause(ctx)
	}
	if err != nil && p != nil {
		t.cfg.Publisher.Remember(s.sent())
	}
	return s, err
}

// write calls f with book.mu held, without anything sent, and waits until its receipt is written, if there is anything in
// the receipt.
func (t *term) write(ctx context.Context, f func() *Receipt) error {
	s, err := t.decide(ctx, nil, nil, nil, func() (*Receipt, error) {
		if r := f(); r.Trying != 0 || len(r.Holds)+len(r.Ended) > 0 {
			return r, nil
		}
		return nil, nil
	})
	if err != nil || s.receipt == nil {
		return err
	}
	return s.written(ctx)
}

// written waits until the receipt is written.
func (s *settlement) written(ctx context.Context) error {
	select {
	case <-s.done:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// holdIDs gives out ids for holds. They are drawn in blocks, each larger than the one before: where many holds are put in
// place, many more are.
type holdIDs struct {
	draw func(ctx context.Context, n int) ([]int64, error)
	ids  []int64
	next int
}

const (
	firstHoldIDs = 4
	mostHoldIDs  = 4096
)

// take is used under the lock of the hold book.
func (h *holdIDs) take(ctx context.Context) (int64, error) {
	if len(h.ids) == 0 {
		h.next = min(max(2*h.next, firstHoldIDs), mostHoldIDs)
		bounded, cancel := context.WithTimeout(ctx, settleTimeout)
		defer cancel()
		ids, err := h.draw(bounded, h.next)
		if err != nil {
			return 0, fmt.Errorf("draw ids for holds: %w", err)
		}
		h.ids = ids
	}
	id := h.ids[0]
	h.ids = h.ids[1:]
	return id, nil
}
