package relay

import (
	"context"
	"fmt"
	"math"
	"time"

	"github.com/postrider/postrider/relay/outbox"
)

const (
	// lookSoon and lookLate bound the pauses between looks at who may still fill gaps, while there are any.
	lookSoon = 25 * time.Millisecond
	lookLate = time.Second
	// lookInOrder is the pause between looks while events in commit order wait for one.
	lookInOrder = 2 * time.Millisecond
)

// read reads the log ahead of what is sent, until ctx ends.
func (t *term) read(ctx context.Context) error {
	if t.once != nil {
		defer t.once.read.Store(true)
		if !t.once.log {
			return nil
		}
	}
	looks := lookClock{pause: lookSoon}
	unwritten := 0 // receipts since the last with all gaps
	for ctx.Err() == nil {
		if err := t.lookIfDue(ctx, &looks); err != nil {
			return ended(ctx, err)
		}
		began := time.Now()
		page, q, err := t.readPage(ctx)
		if err != nil {
			return ended(ctx, err)
		}
		if t.once != nil && len(page.Events) == 0 {
			return nil
		}
		b := t.take(page, q)
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
				t.idle.busy(n)
				if !b.More {
					t.idle.after(ctx, n)
				}
				continue
			}
		}
		if t.waitsForLook {
			sleep(ctx, lookInOrder)
			continue
		}
		t.idle.wait(ctx)
	}
	return nil
}

// ended is the error of something that was asked with ctx: none when that ended.
func ended(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return nil
	}
	return err
}

// readPage reads until what was read can be believed.
func (t *term) readPage(ctx context.Context) (Page, question, error) {
	bounded, cancel := context.WithTimeout(ctx, cycleTimeout)
	defer cancel()
	events := t.cfg.BatchSize
	if c := int(t.careful.Load()); c > 0 && t.position < t.carefulTo {
		events = min(events, c)
	}
	if t.once != nil {
		if events = t.once.reserve(events); events == 0 {
			return Page{}, question{}, nil
		}
	}
	for {
		q := t.gaps.ask()
		page, err := t.leader.Read(bounded, Question{Gaps: q.ranges, Position: t.position, Through: math.MaxInt64, Events: events, Bytes: batchBytes})
		if err != nil {
			return Page{}, q, fmt.Errorf("read the log: %w", err)
		}
		if t.gaps.believe(q, page.Snapshot) {
			if t.once != nil {
				t.once.restore(events - min(events, len(page.Events)))
			}
			return page, q, nil
		}
	}
}

// take makes a page the next batch: the position and the gaps are moved behind it.
func (t *term) take(page Page, q question) *logBatch {
	b := &logBatch{Page: page}
	ids := make([]int64, page.Filled)
	for i := range ids {
		ids[i] = page.Events[i].ID
	}
	b.forgotten = t.gaps.filled(q, RangesOf(ids), page.Complete)
	ahead := t.inOrder(page.Events[page.Filled:])
	if len(ahead) < len(page.Events)-page.Filled {
		b.Events, b.More = page.Events[:page.Filled+len(ahead)], false
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

// inOrder cuts events off before the first of a topic in commit order that is not final: a transaction that is open may
// commit an earlier one.
func (t *term) inOrder(events []outbox.Event) []outbox.Event {
	if !t.cfg.CommitOrder && !t.ordered.Load() {
		return events
	}
	for i := range events {
		if events[i].ID > t.gaps.final && t.settings(events[i].Topic).CommitOrder {
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

// lookIfDue looks at who may still fill gaps, if there are any and it is time for it.
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
	t.gaps.look(look)
	t.waitsForLook = false
	if fresh {
		c.pause = lookSoon
	} else {
		c.pause = min(2*c.pause, lookLate)
	}
	c.next = time.Now().Add(c.pause)
	return nil
}
