package relay

import (
	"slices"
	"time"

	"github.com/postrider/postrider/relay/outbox"
)

// modelStore is the outbox in memory: what the queries of relay/postgres do, without the database. Time
// stands still until somebody advances now.
type modelStore struct {
	now    time.Duration
	open   map[int64]bool // events whose transaction is not committed yet
	rng    func(n int) int
	events []*modelEvent // in id order
	holds  map[int64]*modelHold
	locked map[int16]bool
	lastID int64
}

type modelEvent struct {
	outbox.Event
	state   outbox.State
	hold    int64
	next    time.Duration // when a scheduled one comes back
	delayed time.Duration // available at
	came    bool          // its delay is over
}

type modelHold struct {
	Hold
	next  time.Duration
	event int64 // that it comes from
}

// never is a probe that nobody makes.
const never = time.Duration(1 << 62)

func newModelStore() *modelStore {
	return &modelStore{holds: map[int64]*modelHold{}, locked: map[int16]bool{}, open: map[int64]bool{}}
}

// write adds an event.
func (m *modelStore) write(e outbox.Event, delay time.Duration) {
	e.State = outbox.Pending
	ev := &modelEvent{Event: e, state: outbox.Pending, came: delay == 0}
	if delay > 0 {
		ev.delayed = m.now + delay
	}
	m.events = append(m.events, ev)
}

func (m *modelStore) find(id int64) *modelEvent {
	i, ok := slices.BinarySearchFunc(m.events, id, func(e *modelEvent, id int64) int { return int(e.ID - id) })
	if !ok {
		return nil
	}
	return m.events[i]
}

// claim locks the free ones of these shards that have pending events, and reads at most limit of each, shard by
// shard or in the order of ids.
func (m *modelStore) claim(shards []int16, limit int) ([]int16, *Batch) {
	b := &Batch{PerShard: limit, Final: m.final(), FenceAge: time.Duration(m.rng(2)) * time.Second}
	var mine []int16
	for _, shard := range shards {
		n := 0
		for _, e := range m.events {
			if m.locked[shard] || n == limit || e.Shard != shard || e.state != outbox.Pending || m.open[e.ID] {
				continue
			}
			copied := e.Event
			copied.Delayed = !e.came && e.delayed > m.now
			b.Events = append(b.Events, copied)
			n++
		}
		if n > 0 {
			mine = append(mine, shard)
		}
	}
	if m.rng(2) == 1 { // as a deep backlog is read
		slices.SortFunc(b.Events, func(a, b outbox.Event) int { return int(a.ID - b.ID) })
	}
	for _, shard := range mine {
		m.locked[shard] = true
	}
	for _, h := range m.holds {
		seen := h.Hold
		seen.Through = map[int16]int64{}
		for _, shard := range mine {
			if id, ok := h.Through[shard]; ok {
				seen.Through[shard] = id
			}
		}
		if h.Scope != ScopeKey || len(seen.Through) > 0 {
			b.Holds.Add(&seen)
		}
	}
	return mine, b
}

// final is the id up to which nothing can be committed any more.
func (m *modelStore) final() int64 {
	last := int64(0)
	for _, e := range m.events {
		if m.open[e.ID] {
			return last
		}
		last = e.ID
	}
	return last
}

func (m *modelStore) release(shards []int16) {
	for _, shard := range shards {
		delete(m.locked, shard)
	}
}

func (m *modelStore) settle(s *Settlement) {
	ids := make([]int64, len(s.Holds))
	for i := range s.Holds {
		ids[i] = m.putHold(&s.Holds[i])
	}
	for _, id := range s.Delivered {
		m.find(id).state = outbox.Published
	}
	for _, f := range s.Exhausted {
		e := m.find(f.ID)
		e.state, e.Attempts = outbox.Exhausted, f.Attempts
	}
	for _, w := range s.Scheduled {
		e := m.find(w.ID)
		e.state, e.next, e.came = outbox.Scheduled, e.delayed, true
		if w.In > 0 {
			e.next = m.now + w.In
		}
		if w.Failure != nil {
			e.Attempts = w.Failure.Attempts
		}
	}
	for i := range s.Holds {
		if c := &s.Holds[i]; c.Anchor {
			m.holds[ids[i]].Through[c.Shard] = 0
		}
	}
	for _, p := range s.Parked {
		id := p.HoldID
		if id == 0 {
			id = ids[p.Hold]
		}
		h := m.holds[id]
		if h == nil {
			continue // it ended meanwhile: the event stays pending
		}
		if _, known := h.Through[p.Shard]; !known || slices.Contains(ids, id) {
			h.Through[p.Shard] = 0
		}
		e := m.find(p.ID)
		e.state, e.hold = outbox.Parked, id
		if p.Failure != nil {
			e.Attempts = p.Failure.Attempts
		}
	}
	for i := range s.Crowds {
		m.parkCrowd(&s.Crowds[i])
	}
	for _, id := range s.Proven {
		if h := m.holds[id]; h != nil && !h.Draining {
			h.Draining, h.next = true, m.now
		}
	}
}

func (m *modelStore) putHold(c *HoldChange) int64 {
	next := m.now + c.ProbeIn
	if c.ProbeIn == Forever {
		next = never
	}
	event := int64(c.EventID[14])<<8 | int64(c.EventID[15])
	for id, h := range m.holds {
		if h.Scope == c.Scope && h.Topic == c.Topic && string(h.Key) == string(c.Key) && h.Partition == c.Partition {
			h.Cause, h.Probes, h.next, h.Draining, h.event = c.Cause, c.Probes, next, c.Draining, event
			return id
		}
	}
	m.lastID++
	m.holds[m.lastID] = &modelHold{next: next, event: event, Hold: Hold{ID: m.lastID, Scope: c.Scope, Topic: c.Topic, Cause: c.Cause,
		Key: c.Key, Partition: c.Partition, Partitions: c.Partitions, Probes: c.Probes, Draining: c.Draining, Through: map[int16]int64{}}}
	return m.lastID
}

// parkCrowd is what settling does about a key that keeps the others of its shard waiting.
func (m *modelStore) parkCrowd(c *Crowd) {
	var hold *modelHold
	through := c.After
	for _, h := range m.holds {
		if h.Scope == ScopeKey && h.Topic == c.Topic && string(h.Key) == string(c.Key) {
			hold = h
			if id, known := h.Through[c.Shard]; known {
				through = id
			}
		}
	}
	var crowd []*modelEvent
	others := false
	from := max(c.After, c.Beyond)
	c.Alone, c.Looked = from, 0
	for _, e := range m.events { // in the order of ids
		if e.Shard != c.Shard || e.ID <= c.After || e.state != outbox.Pending || m.open[e.ID] {
			continue
		}
		own := e.Topic == c.Topic && e.HasKey() && string(e.Key) == string(c.Key)
		if own && e.ID > through && (e.came || e.delayed <= m.now) {
			crowd = append(crowd, e)
		}
		if !own && e.ID > from {
			others = true
		}
		if e.ID > from && !others {
			c.Alone, c.Looked = e.ID, c.Looked+1
		}
	}
	if others {
		c.Looked = 0
	}
	if !others || len(crowd) == 0 {
		return
	}
	if hold == nil {
		hold = m.holds[m.putHold(&HoldChange{Scope: ScopeKey, Topic: c.Topic, Key: c.Key, Cause: CauseCrowded, Draining: true})]
	}
	if _, known := hold.Through[c.Shard]; !known {
		hold.Through[c.Shard] = c.After
	}
	for _, e := range crowd {
		e.state, e.hold = outbox.Parked, hold.ID
	}
}

// redrive puts the event that halts a key back in its place; release lets the others go without it.
func (m *modelStore) redrive(h *modelHold) {
	e := m.find(h.event)
	if m.locked[e.Shard] || h.Cause != CauseHalted || h.Draining {
		return
	}
	e.state, e.Attempts = outbox.Pending, 0
	h.Cause, h.next, h.Draining = CauseRedrive, never, false
	h.Through[e.Shard] = e.ID
}

func (m *modelStore) releaseHold(h *modelHold) {
	h.next = m.now
	h.Draining = h.Draining || h.Cause == CauseHalted || h.Cause == CauseRedrive
}

// returnScheduled brings back what is due in a shard, in order of its time.
func (m *modelStore) returnScheduled(shard int16) {
	if m.locked[shard] {
		return
	}
	for _, e := range m.events {
		if e.Shard == shard && e.state == outbox.Scheduled && e.next <= m.now {
			e.state = outbox.Pending
		}
	}
}

// returnHold works on one hold as Return does: on all shards of a draining one, on the first shard of
// one that is due for a probe. A shard that somebody works on is left alone.
func (m *modelStore) returnHold(id int64, limit int, grace time.Duration) {
	h := m.holds[id]
	if h == nil || h.next > m.now {
		return
	}
	var shards []int16
	for shard := range h.Through {
		shards = append(shards, shard)
	}
	slices.Sort(shards)
	if !h.Draining && len(shards) > 0 {
		shards, limit = shards[:1], 1
	}
	final := m.final()
	for _, shard := range shards {
		if m.locked[shard] || h.Cause == CauseCrowded && m.crowdWaits(h, shard) {
			continue
		}
		n, more := 0, false
		for _, e := range m.events {
			switch {
			case e.state != outbox.Parked || e.hold != id || e.Shard != shard:
			case h.Draining && h.Cause == CauseCommitOrder && e.ID > final:
				more = true
			case n < limit:
				e.state, e.hold, h.Through[shard] = outbox.Pending, 0, e.ID
				n++
			}
		}
		switch {
		case !h.Draining && n > 0:
			h.next = m.now + grace
			return
		case n < limit && !more:
			delete(h.Through, shard)
		}
	}
	if len(h.Through) == 0 {
		delete(m.holds, id)
	}
}

// crowdWaits reports whether what came back last still waits.
func (m *modelStore) crowdWaits(h *modelHold, shard int16) bool {
	return slices.ContainsFunc(m.events, func(e *modelEvent) bool {
		return e.Shard == shard && e.state == outbox.Pending && e.ID <= h.Through[shard]
	})
}

// waiting counts the events that have not found their end.
func (m *modelStore) waiting() (n int) {
	for _, e := range m.events {
		if e.state != outbox.Published && e.state != outbox.Exhausted {
			n++
		}
	}
	return n
}

// latest is how long until the last of what waits is due.
func (m *modelStore) latest() (d time.Duration) {
	for _, h := range m.holds {
		if h.next != never {
			d = max(d, h.next-m.now)
		}
	}
	for _, e := range m.events {
		if e.state == outbox.Scheduled || e.state == outbox.Pending {
			d = max(d, e.next-m.now, e.delayed-m.now)
		}
	}
	return d
}
