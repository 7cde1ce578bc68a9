package relay

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/postrider/postrider/internal/loop"
)

const (
	// tendPause is the longest pause before holds are looked at again: people ask things of them.
	tendPause = 250 * time.Millisecond
	// tendSoon is the shortest: holds whose events are at the broker are due all the while.
	tendSoon = 20 * time.Millisecond
	// putBackPause is how long events that were taken and not tried rest: an earlier record has no answer yet.
	putBackPause = 250 * time.Millisecond
	// dueAtOnce is how many holds are looked after at once, and how many events of keys are tried together.
	dueAtOnce = 500
	// probeWithin is how long a probe may be without an answer. It is then with the client, and asked for again.
	probeWithin = 2 * time.Second
	// scheduledEvery is how often scheduled events are looked for although none is due: the clock may have been put back.
	scheduledEvery = 10 * time.Second
	// leftPause is the pause before a hold is looked at again whose first event others have in hand.
	leftPause = 20 * time.Millisecond
	// skipsEvery is how often requests to skip events that the position has passed are looked at.
	skipsEvery = time.Second
)

// tendHolds looks after events that did not simply go. It lets probes through holds that are due, brings back the events
// behind holds whose cause is gone, and sends events that waited for a time. Each wide hold is looked after by itself,
// because a hold whose partition is away takes its time; holds of keys go together. No hold is looked after twice at once.
func (t *term) tendHolds(reading, work context.Context, fail func(error)) {
	var tending sync.WaitGroup
	defer tending.Wait()
	begin := func(holds []*Hold, giveUp bool) {
		tending.Go(func() { fail(t.tend(work, reading, holds, giveUp)) })
	}
	var skips, looked time.Time
	var scheduled sync.Mutex
	if err := t.openBreakers(work); err != nil {
		fail(ended(work, err))
		return
	}
	for reading.Err() == nil && work.Err() == nil {
		if t.brokers.away() {
			t.brokers.wait(reading)
			continue
		}
		dueRead := t.book.beginDueRead()
		due, next, err := t.leader.DueHolds(work, dueAtOnce)
		if err != nil {
			fail(ended(work, fmt.Errorf("look for holds that are due: %w", err)))
			return
		}
		var all, keys []*Hold
		var giveUps []bool
		for _, d := range due {
			if t.once != nil && t.once.probed[d.ID] {
				continue
			}
			h, giveUp, later := t.begin(d, dueRead)
			if t.once != nil && !later {
				t.once.probed[d.ID] = true
			}
			if h != nil {
				all, giveUps = append(all, h), append(giveUps, giveUp)
			}
		}
		if err := t.answerReleases(work, all); err != nil {
			fail(ended(work, err))
			return
		}
		for i, h := range all {
			if h.Scope == ScopeKey && !giveUps[i] {
				keys = append(keys, h)
			} else {
				begin([]*Hold{h}, giveUps[i])
			}
		}
		if len(keys) > 0 {
			begin(keys, false)
		}
		// It comes before scheduled events are looked for: beside that it would take a connection more.
		if time.Since(skips) > skipsEvery {
			skips = time.Now()
			if err := t.leader.ResolveSkips(work); err != nil {
				fail(ended(work, fmt.Errorf("look at what is to be skipped: %w", err)))
				return
			}
		}
		if (next <= 0 || t.once != nil || time.Since(looked) > scheduledEvery) && scheduled.TryLock() {
			looked = time.Now()
			tending.Go(func() {
				defer scheduled.Unlock()
				fail(t.sendScheduled(work, reading))
			})
		}
		if t.once != nil && t.once.read.Load() && len(keys) == 0 {
			tending.Wait()
			again, _, err := t.leader.DueHolds(work, dueAtOnce)
			if err != nil {
				fail(ended(work, fmt.Errorf("look for holds that are due: %w", err)))
				return
			}
			if !t.once.anyNew(again) {
				return
			}
			continue
		}
		longest := tendPause
		if t.rest.resting() {
			longest = restLongest
		}
		pause := time.NewTimer(min(max(next, tendSoon), longest))
		select {
		case <-reading.Done():
		case <-work.Done():
		case <-t.holdWake:
		case <-pause.C:
		}
		pause.Stop()
	}
}

// answerReleases writes down that releases begin, before any event is taken. So a give-up that is asked during the release
// is a request of its own.
func (t *term) answerReleases(ctx context.Context, holds []*Hold) error {
	return t.write(ctx, func() *Receipt {
		receipt := &Receipt{}
		for _, h := range holds {
			if h.answered {
				receipt.Holds = append(receipt.Holds, h.asChange())
			}
		}
		return receipt
	})
}

// openBreakers brings back all events that circuit breakers keep, of topics that have no circuit breaker any more.
func (t *term) openBreakers(ctx context.Context) error {
	return t.write(ctx, func() *Receipt {
		receipt := &Receipt{}
		for _, h := range t.book.byID {
			if h.Scope == ScopeFailure && t.settings(h.Topic).BreakerEvents < 0 && !h.Draining {
				h.Draining = true
				receipt.Holds = append(receipt.Holds, h.asChange())
			}
		}
		return receipt
	})
}

// begin takes a hold in hand that is due, and says whether all events behind it are to be given up. It returns nil when
// there is nothing to do, or another goroutine has the hold in hand. later says that the read may have seen the hold as it
// was before its last change: behind a key that was halted since, nothing may be probed.
func (t *term) begin(d DueHold, dueRead int64) (h *Hold, giveUp, later bool) {
	t.book.mu.Lock()
	defer t.book.mu.Unlock()
	h = t.book.byID[d.ID]
	switch {
	case h == nil || h.busy:
		return nil, false, false // it is about to go, or its receipt is not written yet
	case h.stale(dueRead):
		return nil, false, true
	case d.Asked == AskedGiveUp:
		giveUp, h.givenUpTo = true, max(t.book.last, t.began.Position)
	case d.Asked == AskedRelease:
		h.Draining, h.through, h.kept, h.answered = true, 0, false, true
	case !h.Draining && !d.Probe:
		return nil, false, false
	}
	h.busy = true
	return h, giveUp, false
}

// tend looks after holds until none of them has more to give for now.
func (t *term) tend(ctx, reading context.Context, holds []*Hold, giveUp bool) error {
	defer func() { t.letGo(holds, nil) }()
	for len(holds) > 0 && reading.Err() == nil && ctx.Err() == nil {
		was := t.stand(holds)
		taken, left, cut, err := t.takeWithin(ctx, t.taking(holds, giveUp))
		if err != nil {
			return fmt.Errorf("take what waits behind holds: %w", err)
		}
		if cut { // the limit of an action was reached: the rest behind the holds was not looked at
			_, err := t.sendTaken(ctx, reading, taken, t.book.takeInHand(taken), giveUp, t.within(holds))
			return err
		}
		found := map[int64]int64{}
		for i := range taken {
			found[taken[i].Hold] = max(found[taken[i].Hold], taken[i].Event.ID)
		}
		hands := t.book.takeInHand(taken)
		var more []*Hold
		err = t.write(ctx, func() (ends *Receipt) {
			ends, more = t.endEmpty(holds, was, found, left, giveUp)
			return ends
		})
		if err != nil {
			return err
		}
		if len(taken) > 0 {
			again, err := t.sendTaken(ctx, reading, taken, hands, giveUp, t.within(holds))
			if err != nil {
				return err
			}
			more = append(again, more...)
		}
		t.letGo(holds, more)
		switch holds = more; {
		case len(taken) > 0 || len(holds) == 0:
		case len(left) > 0:
			_ = loop.Sleep(ctx, leftPause)
		default:
			_ = loop.Sleep(ctx, 2*time.Millisecond) // receipts that park events behind them are being written
		}
	}
	return ended(ctx, context.Cause(ctx))
}

// letGo says that no goroutine looks after holds any more, except for some.
func (t *term) letGo(holds, except []*Hold) {
	stay := make(map[*Hold]bool, len(except))
	for _, h := range except {
		stay[h] = true
	}
	t.book.mu.Lock()
	defer t.book.mu.Unlock()
	for _, h := range holds {
		if !stay[h] {
			h.busy, h.written = false, t.book.dueReads
			t.book.reopen(h)
		}
	}
}

// standing is the state of a hold before a look behind it.
type standing struct {
	parks int
	// parking says that more was to be parked, and not written yet.
	parking bool
}

func (t *term) stand(holds []*Hold) []standing {
	t.book.mu.Lock()
	defer t.book.mu.Unlock()
	was := make([]standing, len(holds))
	for i, h := range holds {
		was[i] = standing{h.parks, len(h.parking) > 0}
		h.resetMissed()
	}
	return was
}

// taking says which events to take from holds: one event as a probe, or as many as fit where a hold drains.
func (t *term) taking(holds []*Hold, giveUp bool) Taking {
	t.book.mu.Lock()
	defer t.book.mu.Unlock()
	taking := Taking{Bytes: t.cfg.BatchBytes}
	share := max(1, t.cfg.BatchSize/len(holds))
	for _, h := range holds {
		th := TakingHold{ID: h.ID, Events: 1}
		if h.Draining || giveUp {
			th.Events = share
		}
		if h.Draining && !giveUp {
			th.After = h.through
		}
		switch {
		case !giveUp:
			th.Until = h.missed // which may be the older one of a key
		case h.Scope == ScopeFailure:
			th.Until = h.givenUpTo
		}
		taking.Holds = append(taking.Holds, th)
	}
	return taking
}

func (t *term) within(holds []*Hold) time.Duration {
	t.book.mu.Lock()
	defer t.book.mu.Unlock()
	for _, h := range holds {
		if h.Draining {
			return t.cfg.PublishTimeout
		}
	}
	return min(probeWithin, t.cfg.PublishTimeout)
}

// endEmpty ends the holds behind which nothing was found, and nothing is to be parked since. If something is still to be
// parked behind a hold that drains, the hold keeps the log from parking more, and is looked at again: more. found has the
// last id that was taken, by hold; events up to that id pass. left has the holds that have events and could give none;
// they are looked at again, too. Call it with book.mu held.
func (t *term) endEmpty(holds []*Hold, was []standing, found map[int64]int64, left map[int64]bool, giveUp bool) (ends *Receipt, more []*Hold) {
	ends = &Receipt{}
	for i, h := range holds {
		if last := found[h.ID]; last > 0 {
			if h.through = max(h.through, last); h.missed > 0 {
				h.through = min(h.through, h.missed-1)
			}
			continue
		}
		switch {
		case left[h.ID]:
			if t.once == nil {
				more = append(more, h)
			}
		case giveUp && h.Scope == ScopeFailure: // a probe finds out whether other events have failed since
			h.kept, h.Draining, h.through, h.answered, h.Probes, h.probeIn = false, false, 0, true, 0, 0
			ends.Holds = append(ends.Holds, h.asChange())
			t.book.reopen(h)
		case h.kept && !giveUp:
			// The events that were tried again are behind it again.
			h.kept, h.Draining, h.through = false, false, 0
			h.probeIn = probePause(breakerProbeBase, breakerProbeCap, h.Probes)
			ends.Holds = append(ends.Holds, h.asChange())
			t.book.reopen(h)
		case h.Scope == ScopeFailure && h.through > 0: // events parked meanwhile may have any id
			h.through = 0
			more = append(more, h)
		case h.parks == was[i].parks && !was[i].parking:
			t.book.end(h)
			ends.Ended = append(ends.Ended, h.ID)
		case h.Draining || giveUp:
			h.closing = h.logParks()
			more = append(more, h)
		}
	}
	return ends, more
}

// sendTaken sends events that were taken and decides about them. hands are their keys, which are noted as in hand.
// It returns the holds that drain and may have more at once.
func (t *term) sendTaken(ctx, reading context.Context, taken []Taken, hands map[subject]bool, giveUp bool,
	within time.Duration) (again []*Hold, err error) {
	if len(taken) == 0 {
		return nil, nil
	}
	began, submitted := time.Now(), false
	events := make([]Event, len(taken))
	from := make([]*Hold, len(taken))
	t.book.mu.Lock()
	for i := range taken {
		events[i], from[i] = taken[i].Event, t.book.byID[taken[i].Hold]
	}
	t.book.mu.Unlock()
	pass := t.tracing.pass(ctx, actionReturn, actionReturn, began, time.Now(), len(taken))
	defer func() {
		if err != nil && !submitted {
			pass.close(err)
		}
	}()
	select {
	case t.dispatches <- struct{}{}:
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	sent := sync.OnceFunc(func() { <-t.dispatches })
	defer sent()
	if err := t.awaitSure(ctx); err != nil {
		return nil, err
	}
	p := t.plan(planInput{ctx: ctx, events: events, from: from, giveUp: giveUp, now: time.Now(), hands: hands})
	outcomes := t.publish(pass.in(ctx), p, within, pass)
	if ctx.Err() != nil { // the term is over
		t.cfg.Publisher.Remember(delivered(p.messages, outcomes))
		return nil, context.Cause(ctx)
	}
	lost := t.lost(ctx, outcomes)
	sent()
	var back map[*Hold]bool
	s, err := t.decide(ctx, p, outcomes, pass, func() (receipt *Receipt, err error) {
		if lost != nil {
			p.undo()
			receipt = &Receipt{}
			for i := range events {
				receipt.Putback = append(receipt.Putback, events[i].ID)
			}
		} else if receipt, err = p.conclude(outcomes); err != nil {
			return nil, err
		}
		back = putBack(taken, from, receipt.Putback) // before others of their keys are let through
		return receipt, nil
	})
	if err != nil {
		return nil, err
	}
	if submitted = true; lost == nil {
		t.metrics.count(outcomes)
	}
	if err := s.written(ctx); err != nil {
		return nil, err
	}
	t.metrics.settled(actionReturn, len(events))
	if lost != nil {
		t.awaitBrokers(reading, lost)
		return nil, nil
	}
	if len(s.receipt.Putback) > 0 {
		_ = loop.Sleep(reading, putBackPause)
	}
	t.book.mu.Lock()
	defer t.book.mu.Unlock()
	seen := map[*Hold]bool{nil: true}
	for _, h := range from {
		if !seen[h] && !back[h] && (h.Draining || giveUp) && t.book.byID[h.ID] == h {
			again = append(again, h)
		}
		seen[h] = true
	}
	return again, nil
}

// putBack makes holds give out events again from the first event that was put back behind them, and returns these holds.
// ids are ascending. Call it with book.mu held.
func putBack(taken []Taken, from []*Hold, ids []int64) map[*Hold]bool {
	if len(ids) == 0 {
		return nil
	}
	holds := map[*Hold]bool{}
	for i := range taken {
		h, id := from[i], taken[i].Event.ID
		if _, back := slices.BinarySearch(ids, id); back && h != nil {
			h.through = min(h.through, id-1)
			holds[h] = true
		}
	}
	return holds
}

// sendScheduled sends scheduled events whose time has come.
func (t *term) sendScheduled(ctx, reading context.Context) error {
	for reading.Err() == nil && ctx.Err() == nil {
		taken, _, _, err := t.takeWithin(ctx, Taking{Scheduled: t.cfg.BatchSize, Bytes: t.cfg.BatchBytes})
		if err != nil {
			return fmt.Errorf("take what is due: %w", err)
		}
		if len(taken) == 0 {
			return nil
		}
		if _, err := t.sendTaken(ctx, reading, taken, t.book.takeInHand(taken), false, t.cfg.PublishTimeout); err != nil {
			return err
		}
	}
	return nil
}

// takeWithin takes no more events than the limit still allows; cut says that the limit may have left some out.
func (t *term) takeWithin(ctx context.Context, taking Taking) (taken []Taken, left map[int64]bool, cut bool, err error) {
	want := taking.Scheduled
	for _, h := range taking.Holds {
		want += h.Events
	}
	cut = true
	err = t.once.within(want, func(most int) (used int, err error) {
		free := most - min(taking.Scheduled, most)
		taking.Scheduled = min(taking.Scheduled, most)
		for i := range taking.Holds {
			taking.Holds[i].Events = min(taking.Holds[i].Events, free)
			free -= taking.Holds[i].Events
		}
		all, err := t.leader.Take(ctx, taking)
		for i := range all {
			if !all[i].Left {
				taken = append(taken, all[i])
				continue
			}
			if left == nil {
				left = map[int64]bool{}
			}
			left[all[i].Hold] = true
		}
		cut = most < want && (len(taken) == most || len(taking.Holds) > 1)
		return len(taken), err
	})
	return taken, left, cut, err
}

// anyNew reports whether a hold is due that was not probed before.
func (o *onceOnly) anyNew(due []DueHold) bool {
	for _, d := range due {
		if !o.probed[d.ID] {
			return true
		}
	}
	return false
}
