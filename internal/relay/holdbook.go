package relay

import (
	"slices"
	"sync"
	"time"
)

// holdBook has the holds of a term. The leader alone puts holds in place and ends them, so the book is complete: it has the
// holds of the database, with the changes of receipts that are not written yet. The sender of the log and the goroutines
// that look after holds use it, each for as long as it decides about a batch.
type holdBook struct {
	mu         sync.Mutex
	changed    *sync.Cond // a hold ended, or is not about to end any more
	bySubject  map[subject]*Hold
	byID       map[int64]*Hold
	partitions map[string][]*Hold // by topic
	keys       int
	// givenUp counts, by key, the events that were given up by receipts that are not written yet. Later events of the key
	// wait for that: after a crash in between, the event would be read again, and might go after them.
	givenUp map[subject]int
	// inHand counts the batches of events that were taken and about which nothing is decided yet, by key.
	inHand map[subject]int
	// dueReads counts the reads of holds that are due.
	dueReads int64
	last     int64 // id that was decided about
	now      func() time.Time
}

func newHoldBook(holds []Hold) *holdBook {
	b := &holdBook{bySubject: map[subject]*Hold{}, byID: map[int64]*Hold{}, partitions: map[string][]*Hold{},
		givenUp: map[subject]int{}, inHand: map[subject]int{}, now: time.Now}
	b.changed = sync.NewCond(&b.mu)
	for i := range holds {
		h := holds[i]
		h.since = b.now().Add(-h.Age)
		b.add(&h)
	}
	return b
}

// subject is what the hold is about.
func (h *Hold) subject() subject {
	if h.Scope == ScopeFailure {
		return failureSubject(h.Topic, h.Code)
	}
	return subject{h.Scope, h.Topic, string(h.Key), h.Partition, h.Partitions}
}

func failureSubject(topic, code string) subject {
	return subject{scope: ScopeFailure, topic: topic, key: code}
}

func (b *holdBook) add(h *Hold) {
	b.bySubject[h.subject()], b.byID[h.ID] = h, h
	switch h.Scope {
	case ScopeKey:
		b.keys++
	case ScopePartition:
		b.partitions[h.Topic] = append(b.partitions[h.Topic], h)
	}
}

// end takes a hold out of the book. Nothing may be parked behind it.
func (b *holdBook) end(h *Hold) {
	delete(b.bySubject, h.subject())
	delete(b.byID, h.ID)
	switch h.Scope {
	case ScopeKey:
		b.keys--
	case ScopePartition:
		b.partitions[h.Topic] = slices.DeleteFunc(b.partitions[h.Topic], func(other *Hold) bool { return other == h })
		if len(b.partitions[h.Topic]) == 0 {
			delete(b.partitions, h.Topic)
		}
	}
	h.closing = false
	b.changed.Broadcast()
}

// reopen says that a hold does not end after all.
func (b *holdBook) reopen(h *Hold) {
	if h.closing {
		h.closing = false
		b.changed.Broadcast()
	}
}

func (b *holdBook) key(topic string, key []byte) *Hold {
	if key == nil || b.keys == 0 {
		return nil
	}
	return b.bySubject[keySubject(topic, key)]
}

func (b *holdBook) topic(topic string) *Hold { return b.bySubject[topicSubject(topic)] }

func (b *holdBook) failure(topic, code string) *Hold { return b.bySubject[failureSubject(topic, code)] }

func (b *holdBook) partition(topic string, n, of int32) *Hold {
	return b.bySubject[subject{scope: ScopePartition, topic: topic, partition: n, partitions: of}]
}

// each calls f with the holds that bear on an event, until it returns false. The hold of its key comes first, because an
// event that waits for its key would be a probe of its topic that cannot go. While a topic that grew has holds from before,
// a key is in one partition by the old number of them and in one by the new. An event without a key goes to any partition,
// unless its writer chose one.
func (b *holdBook) each(e *Event, partition func(e *Event, n int32) int32, f func(*Hold) bool) {
	if len(b.bySubject) == 0 {
		return
	}
	if h := b.key(e.Topic, e.Key); h != nil && !f(h) {
		return
	}
	if !b.eachPartition(e, partition, f) {
		return
	}
	if h := b.topic(e.Topic); h != nil {
		f(h)
	}
}

// eachPartition calls f with the holds of an event's partition, and reports whether all of them returned true.
func (b *holdBook) eachPartition(e *Event, partition func(e *Event, n int32) int32, f func(*Hold) bool) bool {
	if e.goesAnywhere() {
		return true
	}
	for _, h := range b.partitions[e.Topic] {
		if e.isOn(h.Partition, h.Partitions, partition) && !f(h) {
			return false
		}
	}
	return true
}

// lets reports whether an event may go under the hold: the hold let ids up to it through, or the key waits for this event.
func (h *Hold) lets(e *Event) bool { return e.ID <= h.through || h.expects(e) }

// expects reports whether this event is the one that its key waits for.
func (h *Hold) expects(e *Event) bool { return h.Scope == ScopeKey && h.EventID == e.EventID }

// awaits returns the hold that an event must wait for, or nil when it may go. from is the hold that it came from. taken
// says that it was taken, so that its own batch is among the batches in hand.
func (b *holdBook) awaits(e *Event, from *Hold, taken bool, partition func(e *Event, n int32) int32) (waits *Hold) {
	if len(b.bySubject) == 0 {
		return nil
	}
	own := 0
	if taken {
		own = 1
	}
	others := len(b.inHand) > 0 && e.HasKey() && b.inHand[keySubject(e.Topic, e.Key)] > own
	b.each(e, partition, func(h *Hold) bool {
		switch {
		case h.expects(e): // its key waits for this one
		case h == from && h.missed > 0 && h.missed < e.ID: // an older one may have come behind it since
			waits = h
		case h != from && e.ID > h.through:
			waits = h
		case h != from && others: // older ones are in hand, and may be parked again
			waits = h
		}
		return waits == nil
	})
	return waits
}

// takeInHand notes the keys of events that were taken, before the holds that they come from let later ones through, until
// all is decided about them. It returns these keys.
func (b *holdBook) takeInHand(taken []Taken) map[subject]bool {
	hands := make(map[subject]bool, len(taken))
	b.mu.Lock()
	defer b.mu.Unlock()
	for i := range taken {
		if e := &taken[i].Event; e.HasKey() && !hands[keySubject(e.Topic, e.Key)] {
			hands[keySubject(e.Topic, e.Key)] = true
			b.inHand[keySubject(e.Topic, e.Key)]++
		}
	}
	return hands
}

// beginDueRead begins a read of the holds that are due, and returns its number.
func (b *holdBook) beginDueRead() int64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.dueReads++
	return b.dueReads
}

// park notes that a plan parks an event behind the hold, whose id is given if it comes from elsewhere. It reports whether
// the plan parks here for the first time.
func (h *Hold) park(p *plan, id int64) (first bool) {
	lowest, more := h.parking[p]
	if h.parking == nil {
		h.parking = map[*plan]int64{}
	}
	h.parks++
	if id == 0 {
		h.parking[p] = lowest
		return !more
	}
	if lowest == 0 || id < lowest {
		h.parking[p] = id
	}
	if h.missed == 0 || id < h.missed {
		h.missed = id
	}
	return !more
}

// resetMissed is called before each look behind the hold. The look finds every parked event whose receipt is written.
func (h *Hold) resetMissed() {
	h.missed = 0
	for _, id := range h.parking {
		if id > 0 && (h.missed == 0 || id < h.missed) {
			h.missed = id
		}
	}
}

// logParks reports whether only the log still parks behind the hold. The log waits while a hold is closing; other plans may
// wait for a broker's answer first.
func (h *Hold) logParks() bool {
	for p := range h.parking {
		if p.taken {
			return false
		}
	}
	return true
}

// stale reports whether a read may have seen a hold as it was before it was changed last.
func (h *Hold) stale(dueRead int64) bool { return h.writing > 0 || h.written >= dueRead }

// writing notes that holds are changed by a receipt that is to be written.
func (b *holdBook) writing(changes []HoldChange) {
	for i := range changes {
		if h := b.byID[changes[i].ID]; h != nil {
			h.writing++
		}
	}
}

// settled notes that the receipt of a plan was written.
func (b *holdBook) settled(p *plan) {
	if p == nil || len(p.parked)+len(p.goneKeys)+len(p.receipt.Holds) == 0 {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, h := range p.parked {
		delete(h.parking, p)
	}
	for _, k := range p.goneKeys {
		if b.givenUp[k]--; b.givenUp[k] <= 0 {
			delete(b.givenUp, k)
		}
	}
	if len(p.goneKeys) > 0 {
		b.changed.Broadcast()
	}
	for i := range p.receipt.Holds {
		if h := b.byID[p.receipt.Holds[i].ID]; h != nil {
			h.writing--
			h.written = b.dueReads
		}
	}
}
