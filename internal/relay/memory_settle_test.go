package relay

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"
)

// Settle writes receipts as one statement after the other would: holds first, then the events that are parked behind
// them, and last the holds that end.
func (l *memoryLead) Settle(ctx context.Context, rs []*Receipt) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.settling = ctx
	if err := cmp.Or(ctx.Err(), l.failing("settle")); err != nil {
		return err
	}
	if l.leader != l {
		return fmt.Errorf("settle: %w", ErrNotLeading)
	}
	if err := l.apply(rs); err != nil {
		return err
	}
	for _, r := range rs {
		l.receipts = append(l.receipts, *r)
	}
	if l.unanswered != nil {
		return l.unanswered()
	}
	return nil
}

// apply checks the whole and then changes it.
func (l *memoryLead) apply(rs []*Receipt) error {
	holds, exceptions := map[int64]*memoryHold{}, map[int64]*memoryException{}
	for id, h := range l.holds {
		copied := *h
		holds[id] = &copied
	}
	for id, x := range l.exceptions {
		copied := *x
		exceptions[id] = &copied
	}
	for _, r := range rs {
		for i := range r.Holds {
			if err := l.putHold(holds, &r.Holds[i]); err != nil {
				return err
			}
		}
	}
	position, gaps, events, forgotten := l.position, l.gaps, l.events, l.forgotten
	for _, r := range rs {
		for i := range r.Exceptions {
			if err := l.putException(holds, exceptions, &r.Exceptions[i]); err != nil {
				return err
			}
		}
		for _, id := range slices.Concat(r.Gone, r.Putback) {
			if x := exceptions[id]; x == nil || !x.sending {
				return l.problem("event %d is not in hand", id)
			}
			exceptions[id].sending = false
		}
		for _, id := range r.Gone {
			delete(exceptions, id)
		}
		if again := r.Events.Minus(r.Events.Minus(events.Union(forgotten))); len(again) > 0 {
			return l.problem("%v are disposed of twice", again)
		}
		events, forgotten = events.Union(r.Events), forgotten.Union(r.Forgotten)
		if r.Position > 0 {
			if r.Position < position {
				return l.problem("the position goes back from %d to %d", position, r.Position)
			}
			if r.Position > position {
				gaps = gaps.Union(Ranges{{position + 1, r.Position}})
			}
			position = r.Position
		}
		gaps = gaps.Minus(r.Events).Minus(r.Forgotten)
		if r.Gaps != nil && !slices.Equal(gaps, r.Gaps) && len(gaps)+len(r.Gaps) > 0 {
			return l.problem("a receipt says that the gaps are %v, they are %v", r.Gaps, gaps)
		}
	}
	for _, r := range rs {
		for _, id := range r.Ended {
			for _, x := range exceptions {
				if x.State == Parked && x.Hold == id {
					return l.problem("hold %d ends, and event %d waits behind it", id, x.ID)
				}
			}
			if holds[id] == nil {
				return l.problem("hold %d ends, and is not there", id)
			}
			delete(holds, id)
		}
		for _, id := range r.Skipped {
			delete(l.skips, id)
		}
		if r.Trying != 0 {
			l.tried = append(l.tried, r.Trying)
		}
	}
	l.holds, l.exceptions, l.position, l.gaps, l.events, l.forgotten = holds, exceptions, position, gaps, events, forgotten
	l.number++
	return nil
}

func (l *memoryLead) putHold(holds map[int64]*memoryHold, c *HoldChange) error {
	h := holds[c.ID]
	if c.New != (h == nil) {
		return l.problem("hold %d: new is %v, it is there: %v", c.ID, c.New, h != nil)
	}
	if h == nil {
		for _, other := range holds {
			if other.Scope == c.Scope && other.Topic == c.Topic && string(other.Key) == string(c.Key) && other.Partition == c.Partition &&
				other.Partitions == c.Partitions && other.FailureCode == c.FailureCode {
				return l.problem("holds %d and %d are on the same", other.ID, c.ID)
			}
		}
		h = &memoryHold{since: time.Now()}
		holds[c.ID] = h
	}
	if h.Cause != c.Cause {
		h.since = time.Now()
	}
	if c.Answered {
		h.asked = ""
	}
	h.HoldChange, h.next = *c, time.Now().Add(c.ProbeIn)
	if c.ProbeIn == Forever {
		h.next = never
	}
	return nil
}

func (l *memoryLead) putException(holds map[int64]*memoryHold, exceptions map[int64]*memoryException, x *Exception) error {
	row := l.visible(x.ID)
	if row == nil || row.EventID != x.EventID || x.EventID == uuid.Nil {
		return l.problem("exception %d is no event", x.ID)
	}
	if (x.State == Parked) != (x.Hold != 0) || x.Hold != 0 && holds[x.Hold] == nil {
		return l.problem("event %d is %s behind hold %d", x.ID, x.State, x.Hold)
	}
	old := exceptions[x.ID]
	if old != nil && !old.sending {
		return l.problem("event %d becomes %s, and was not in hand but %s", x.ID, x.State, old.State)
	}
	n := &memoryException{Exception: *x, event: row.Event}
	if old != nil {
		n.class, n.code, n.text, n.episode = old.class, old.code, old.text, old.episode
		n.MaxAttempts = cmp.Or(x.MaxAttempts, old.MaxAttempts)
	}
	if x.Failure.Class != "" {
		n.class, n.code, n.text = string(x.Failure.Class), x.Failure.Code, x.Failure.Error
	}
	switch x.State {
	case Exhausted:
		n.episode++
	case Scheduled:
		n.next = time.Now().Add(x.In)
		if x.In == 0 {
			n.next = row.available
		}
	}
	exceptions[x.ID] = n
	return nil
}

// memoryLetters are exhausted events that are claimed.
type memoryLetters struct {
	*memory
	events []Event
}

// ClaimLetters implements Store.
func (m *memory) ClaimLetters(_ context.Context, _ func(string) string, limit int) (LetterClaim, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.failing("letters"); err != nil {
		return nil, err
	}
	m.claims++
	c := &memoryLetters{memory: m}
	for _, x := range m.exceptions {
		if x.State == Exhausted && !x.letter && len(c.events) < limit {
			e := x.event
			e.Attempts, e.Episode, e.LastErrorClass, e.LastErrorCode = x.Attempts, x.episode, x.class, x.code
			x.letter = true
			c.events = append(c.events, e)
		}
	}
	if len(c.events) == 0 {
		return nil, nil
	}
	m.letterClaims++
	return c, nil
}

func (c *memoryLetters) Events() []Event { return c.events }

func (c *memoryLetters) Desk() string { return "" }

func (c *memoryLetters) Abandon() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for i := range c.events {
		c.exceptions[c.events[i].ID].letter = false
	}
}

func (c *memoryLetters) Settle(_ context.Context, s *LetterSettlement) error {
	c.Abandon()
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, id := range s.Delivered {
		c.exceptions[id].State = DeadLettered
	}
	return nil
}

func (m *memory) Purge(_ context.Context, limits PurgeLimits) (Purged, error) {
	if m.purge == nil {
		return Purged{}, nil
	}
	return m.purge(limits)
}

func (m *memory) Backlog(context.Context, int) (Backlog, error)        { return m.backlog, nil }
func (m *memory) CountHolds(context.Context, int) ([]HoldCount, error) { return nil, nil }
