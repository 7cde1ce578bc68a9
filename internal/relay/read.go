package relay

import (
	"context"
	"fmt"
	"time"

	"github.com/postrider/postrider/internal/loop"
)

const (
	// lookSoon and lookLate bound the pauses between looks for transactions that may still fill gaps, while there are gaps.
	lookSoon = 25 * time.Millisecond
	lookLate = time.Second
	// lookInOrder and lookInOrderLate bound the pauses between looks while events in commit order wait for one.
	lookInOrder     = 2 * time.Millisecond
	lookInOrderLate = 50 * time.Millisecond
)

// read reads the log ahead of the sender, until ctx ends.
func (t *term) read(ctx context.Context) error {
	if t.once != nil && !t.once.log {
		return nil
	}
	defer t.idle.quit()
	looks := lookClock{pause: lookSoon}
	unwritten := 0         // receipts since the last with all gaps
	ordered := lookInOrder // the pause while events in commit order wait
	for ctx.Err() == nil {
		if err := t.lookIfDue(ctx, &looks); err != nil {
			return ended(ctx, err)
		}
		began := time.Now()
		var page Page
		var b *logBatch
		err := t.once.within(t.readEvents(), func(most int) (used int, err error) {
			var q question
			if page, q, err = t.readPage(ctx, most); err != nil {
				return 0, err
			}
			b = t.take(page, q, most)
			return len(b.Events), nil
		})
		if err != nil {
			return ended(ctx, err)
		}
		if t.once != nil && len(page.Events) == 0 {
			return nil
		}
		b.began, b.readBefore = began, time.Now()
		if n := len(b.Events); n > 0 || len(b.forgotten) > 0 {
			if unwritten++; b.gaps == nil && unwritten >= gapsEvery {
				b.gaps = t.gaps.all()
			}
			if b.gaps != nil {
				unwritten = 0
			}
			select {
			case t.batches <- b:
			case <-ctx.Done():
				return nil
			}
			if n > 0 {
				ordered = lookInOrder
				t.idle.busy(n)
				if !b.More {
					t.idle.after(ctx, n)
				}
				continue
			}
		}
		switch {
		case len(page.Events) == 0 && t.mayRest():
			t.takeRest(ctx)
		case len(page.Events) == 0:
			t.idle.wait(ctx)
		case t.once != nil && ordered > lookInOrder:
			return nil // a transaction may still commit an earlier event
		default: // no notification comes when the transaction that they wait for ends
			_ = loop.Sleep(ctx, ordered)
			ordered = min(2*ordered, lookInOrderLate)
		}
	}
	return nil
}

// ended returns the error of a call that was made with ctx, and nil when ctx has ended.
func ended(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return nil
	}
	return err
}

// readEvents is how many events to read at once.
func (t *term) readEvents() int {
	if c := int(t.careful.Load()); c > 0 {
		return min(t.cfg.BatchSize, c)
	}
	return t.cfg.BatchSize
}

// readPage reads a page, and reads it again while the page cannot be believed.
func (t *term) readPage(ctx context.Context, events int) (Page, question, error) {
	bounded, cancel := context.WithTimeout(ctx, cycleTimeout)
	defer cancel()
	for {
		q := t.gaps.ask()
		page, err := t.leader.Read(bounded, Question{Gaps: q.ranges, Position: t.position, Events: events, Bytes: t.cfg.BatchBytes})
		if err != nil {
			return Page{}, q, fmt.Errorf("read the log: %w", err)
		}
		if t.gaps.believe(q, page.Snapshot) {
			return page, q, nil
		}
	}
}

// take makes at most so many events of a page the next batch, and moves the position and the gaps behind it.
func (t *term) take(page Page, q question, most int) *logBatch {
	b := &logBatch{Page: page}
	ids := make([]int64, page.Filled)
	for i := range ids {
		ids[i] = page.Events[i].ID
	}
	b.forgotten = t.gaps.filled(q, RangesOf(ids), page.Complete)
	if len(b.Events) > most {
		b.Events, b.More = page.Events[:most], true
	}
	ahead := t.inOrder(b.Events[page.Filled:])
	if n := page.Filled + len(ahead); n < len(b.Events) {
		b.Events, b.More = b.Events[:n], false
	}
	var unseen Ranges
	for i := range ahead {
		if id := ahead[i].ID; id > t.position+1 {
			unseen = unseen.push(Range{t.position + 1, id - 1})
		}
		t.position = ahead[i].ID
	}
	b.forgotten = b.forgotten.Union(t.gaps.passed(unseen))
	b.position = t.position
	if t.gaps.ranges() <= manyGaps {
		if b.gaps = t.gaps.all(); b.gaps == nil {
			b.gaps = Ranges{}
		}
	}
	return b
}

// inOrder cuts events off before the first event of a topic in commit order that is not final, because an open transaction
// may commit an earlier one.
func (t *term) inOrder(events []Event) []Event {
	topic, ordered := "", false
	for i := range events {
		e := &events[i]
		if e.ID <= t.gaps.final {
			continue
		}
		if e.Topic != topic { // mostly that of the event before
			topic, ordered = e.Topic, t.settings(e.Topic).CommitOrder
		}
		if ordered {
			t.waitsForLook = true
			return events[:i]
		}
	}
	return events
}

// lookClock paces looks.
type lookClock struct {
	next  time.Time
	pause time.Duration
}

// lookIfDue looks for transactions that may still fill gaps, if there is a reason to look and it is time for it.
func (t *term) lookIfDue(ctx context.Context, c *lookClock) error {
	if t.gaps.empty() && !t.waitsForLook {
		c.pause = lookSoon
		return nil
	}
	if !t.waitsForLook && time.Now().Before(c.next) {
		return nil
	}
	bounded, cancel := context.WithTimeout(ctx, cycleTimeout)
	defer cancel()
	look, err := t.leader.Look(bounded)
	if err != nil {
		return fmt.Errorf("look at the transactions on the outbox: %w", err)
	}
	t.reminder.hear(t.Relay, look.Unknown)
	fresh := len(t.gaps.fresh) > 0
	t.gaps.observe(look)
	t.waitsForLook = false
	if fresh {
		c.pause = lookSoon
	} else {
		c.pause = min(2*c.pause, lookLate)
	}
	c.next = time.Now().Add(c.pause)
	return nil
}
