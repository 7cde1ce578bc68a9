package relay

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"time"
)

// memoryLead implements Leadership over a memory.
type memoryLead struct {
	*memory
	began  Began
	lost   chan struct{}
	unsure bool
}

// Lead implements Store.
func (m *memory) Lead(ctx context.Context, worker string) (Leadership, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.failing("lead"); err != nil {
		return nil, err
	}
	if m.leader != nil {
		return nil, nil
	}
	l := &memoryLead{memory: m, lost: make(chan struct{})}
	m.number, m.term = m.number+1, m.term+1
	l.began = Began{Number: m.number, Term: m.term, Position: m.position, Gaps: m.gaps}
	next, reached := worker, m.position
	for _, t := range slices.Backward(m.terms) {
		if t.ended || t.worker == next || reached-t.position >= 20_000 {
			break
		}
		l.began.Deaths++
		next, reached = t.worker, t.position
	}
	for _, id := range slices.Backward(m.tried) {
		if l.began.Trying == 0 && id > m.position {
			l.began.Trying = id
		}
		if id != l.began.Trying {
			break
		}
		l.began.Tried++
	}
	m.terms = append(m.terms, memoryTerm{term: m.term, position: m.position, worker: worker})
	for _, x := range m.exceptions {
		x.sending = false
	}
	for _, id := range slices.Sorted(maps.Keys(m.holds)) {
		h := m.holds[id]
		l.began.Holds = append(l.began.Holds, Hold{ID: h.ID, Scope: h.Scope, Topic: h.Topic, Key: h.Key, Partition: h.Partition, Partitions: h.Partitions,
			Cause: h.Cause, Age: time.Since(h.since), Probes: h.Probes, Draining: h.Draining, Code: h.FailureCode, ErrorCode: h.Code, Error: h.Error, EventID: h.EventID})
	}
	m.leader = l
	m.leads = append(m.leads, l)
	return l, nil
}

func (m *memory) failing(call string) error {
	if m.fail == nil {
		return nil
	}
	touch()
	defer touch()
	return m.fail(call)
}

// cut ends the session that leads, as a lost connection does. Its relay hears of it when told is true.
func (m *memory) cut(told bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if l := m.leader; l != nil {
		m.leader = nil
		if told {
			close(l.lost)
		}
	}
}

func (l *memoryLead) Began() Began          { return l.began }
func (l *memoryLead) Lost() <-chan struct{} { return l.lost }

func (l *memoryLead) Sure() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return !l.unsure
}

func (l *memoryLead) End(ctx context.Context) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.leader != l {
		return
	}
	if ctx.Err() == nil {
		l.terms[len(l.terms)-1].ended = true
		l.number++
	}
	l.leader = nil
}

func (l *memoryLead) Read(ctx context.Context, q Question) (Page, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := cmp.Or(ctx.Err(), l.failing("read")); err != nil {
		return Page{}, err
	}
	l.reads++
	p := Page{Now: time.Now(), Skips: maps.Clone(l.skips), Snapshot: Snapshot{Max: l.nextXID}}
	for x := range l.open {
		if x.xid != 0 {
			p.Snapshot.Running = append(p.Snapshot.Running, x.xid)
		}
	}
	slices.Sort(p.Snapshot.Running)
	event := func(row *memoryRow) {
		e := row.Event
		e.Delayed = row.available.After(p.Now)
		p.Events = append(p.Events, e)
	}
	for _, g := range q.Gaps {
		for id := g.First; id <= g.Last && len(p.Events) < q.Events; id++ {
			if row := l.visible(id); row != nil {
				event(row)
			}
		}
	}
	p.Filled = len(p.Events)
	if p.Complete = p.Filled < q.Events; !p.Complete {
		p.More = true
		return p, nil
	}
	for id := q.Position + 1; id <= l.lastID; id++ {
		if row := l.visible(id); row != nil {
			if len(p.Events)-p.Filled == q.Events {
				p.More = true
				break
			}
			event(row)
		}
	}
	p.More = p.More || len(p.Events)-p.Filled == q.Events
	return p, nil
}

func (l *memoryLead) Glance(ctx context.Context, position int64, all bool) (g Glance, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := cmp.Or(ctx.Err(), l.failing("glance")); err != nil {
		return g, err
	}
	l.glances++
	for id := range l.rows {
		g.Events = g.Events || id > position && l.visible(id) != nil
	}
	if !all {
		l.glancesAtLog++
		return g, nil
	}
	g.Tend = len(l.skips) > 0
	for _, h := range l.holds {
		if h.Scope != ScopeDeadLetter {
			g.Tend = g.Tend || h.asked != "" || h.Draining || !h.next.After(time.Now())
		}
		g.Waits = true
	}
	for _, x := range l.exceptions {
		g.Letters = g.Letters || x.State == Exhausted
		if x.State == Scheduled {
			g.Waits, g.Tend = true, g.Tend || !x.next.After(time.Now())
		}
	}
	return g, nil
}

func (l *memoryLead) Look(ctx context.Context) (Look, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := cmp.Or(ctx.Err(), l.failing("look")); err != nil {
		return Look{}, err
	}
	l.looks++
	look := Look{Last: l.lastID, Unknown: l.unknown}
	for x := range l.open {
		look.Holders = append(look.Holders, Transaction{Name: x.name, XID: x.xid, Prepared: x.prepared})
	}
	return look, nil
}

func (l *memoryLead) HoldIDs(ctx context.Context, n int) ([]int64, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := cmp.Or(ctx.Err(), l.failing("hold ids")); err != nil {
		return nil, err
	}
	ids := make([]int64, n)
	for i := range ids {
		l.nextHold++
		ids[i] = l.nextHold
	}
	return ids, nil
}

func (l *memoryLead) DueHolds(ctx context.Context, limit int) (due []DueHold, next time.Duration, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := cmp.Or(ctx.Err(), l.failing("due")); err != nil {
		return nil, 0, err
	}
	l.dues++
	next = time.Hour
	for _, id := range slices.Sorted(maps.Keys(l.holds)) {
		h := l.holds[id]
		probe := !h.next.After(time.Now())
		if (probe || h.Draining || h.asked != "") && len(due) < limit {
			due = append(due, DueHold{ID: id, Probe: probe, Asked: h.asked})
		}
		if probe {
			next = 0
		}
		next = min(next, max(time.Until(h.next), 0))
	}
	for _, x := range l.exceptions {
		if x.State == Scheduled {
			next = min(next, time.Until(x.next))
		}
	}
	return due, next, nil
}

func (l *memoryLead) Take(ctx context.Context, t Taking) (taken []Taken, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := cmp.Or(ctx.Err(), l.failing("take")); err != nil {
		return nil, err
	}
	if l.leader != l {
		return nil, fmt.Errorf("take: %w", ErrNotLeading)
	}
	take := func(x *memoryException) {
		x.sending = true
		e := x.event
		e.Attempts, e.Episode, e.LastErrorClass, e.LastErrorCode, e.LastError = x.Attempts, x.episode, x.class, x.code, x.text
		e.Delayed = false
		if x.MaxAttempts > 0 {
			e.MaxAttempts = x.MaxAttempts
		}
		taken = append(taken, Taken{Event: e, Hold: x.Hold})
	}
	for _, h := range t.Holds {
		n := 0
		for _, id := range slices.Sorted(maps.Keys(l.exceptions)) {
			if x := l.exceptions[id]; x.State == Parked && x.Hold == h.ID && id > h.After && (h.Until == 0 || id <= h.Until) && !x.sending && n < h.Events {
				take(x)
				n++
			}
		}
	}
	n := 0
	for _, id := range slices.Sorted(maps.Keys(l.exceptions)) {
		if x := l.exceptions[id]; x.State == Scheduled && !x.next.After(time.Now()) && !x.sending && n < t.Scheduled {
			take(x)
			n++
		}
	}
	slices.SortFunc(taken, func(a, b Taken) int { return cmp.Compare(a.Event.ID, b.Event.ID) })
	return taken, nil
}

func (l *memoryLead) ResolveSkips(ctx context.Context) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := cmp.Or(ctx.Err(), l.failing("skips")); err != nil {
		return err
	}
	for id, reason := range l.skips {
		if id > l.position || l.gaps.Contains(id) {
			continue
		}
		x := l.exceptions[id]
		switch {
		case x == nil:
			delete(l.skips, id)
		case x.sending: // ask again
		case x.State == Parked || x.State == Scheduled:
			l.exhaust(x, reason)
			delete(l.skips, id)
		default:
			delete(l.skips, id)
		}
	}
	return nil
}
