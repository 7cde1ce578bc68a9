package relay

import (
	"math/rand/v2"
	"time"

	"github.com/postrider/postrider/relay/outbox"
)

// rules are what a plan decides by, beside its batch.
type rules struct {
	// settings are those of a topic.
	settings func(topic string) *TopicSettings
	// check returns the outcome of a message that can never be sent as it is, or nil. limit is the
	// topic's largest record in bytes, 0 for the publisher's own.
	check func(m *Message, limit int) *Outcome
	// partition says on which of n partitions a key is.
	partition func(key []byte, n int32) int32
	storms    *storms
	// crowd says whether a shard may be looked at for a crowd now.
	crowd  func(shard int16) bool
	random func() float64
}

// plan turns one batch into messages to send and, with their outcomes, into a settlement. It decides
// and does nothing: every rule about what happens to an event is in the files plan*.go.
type plan struct {
	rules
	batch  *Batch
	encode *encoder

	// messages are what to send; events[i] is the index in batch.Events of messages[i].
	messages []Message
	events   []int
	out      Settlement

	// renewed finds the hold changes of this settlement by what they hold.
	renewed map[subject]int
	// behind says where the later events of a key must wait, once an earlier one did not go.
	behind map[subject]place
	// sending are the keys that have a message, of topics that halt keys.
	sending map[subject]bool
	proven  map[int64]bool
}

// place is where an event waits: a hold that exists (id), one of this settlement (index), or where it
// is: pending, until the next claim.
type place struct {
	id      int64
	index   int
	pending bool
}

// newPlan sorts the events of a batch into those to send and those that wait or are given up unsent.
func newPlan(b *Batch, r rules) *plan {
	if r.random == nil {
		r.random = rand.Float64
	}
	p := &plan{rules: r, batch: b, encode: newEncoder(len(b.Events)),
		messages: make([]Message, 0, len(b.Events)), events: make([]int, 0, len(b.Events)),
		renewed: map[subject]int{}, behind: map[subject]place{}, proven: map[int64]bool{}}
	for i := range b.Events {
		p.sort(i)
	}
	// What is parked so far comes after what is sent. From here on it is about what follows a message that did
	// not go: an earlier event must not be put behind a later one, which may wait elsewhere.
	p.behind, p.sending = map[subject]place{}, nil
	p.lookForCrowds()
	return p
}

// sort decides about event i before anything is sent. Parked events are the probes of their hold, so an
// event is parked only when it can go as soon as the hold ends. A probe that cannot would prove nothing,
// and everything behind it would wait for the next one. Where a key halts at an event that is given up,
// its turn must come first.
func (p *plan) sort(i int) {
	e := &p.batch.Events[i]
	if e.Delayed {
		p.out.Scheduled = append(p.out.Scheduled, Schedule{ID: e.ID})
		return
	}
	if len(p.behind) > 0 && e.HasKey() {
		if at, ok := p.behind[keySubject(e.Topic, e.Key)]; ok && at.id == 0 {
			p.park(e, at, nil)
			return
		}
	}
	s := p.settings(e.Topic)
	hold := p.batch.Holds.WaitsFor(e, p.partition)
	waits := hold != nil || s.CommitOrder && e.ID > p.batch.Final
	if waits && s.AfterLastAttempt == PolicyHaltKey {
		p.wait(e, hold)
		return
	}
	m, o := p.encode.message(e)
	if o == nil {
		o = p.check(&m, s.MaxMessageBytes)
	}
	switch {
	case o != nil && e.HasKey() && p.sending[keySubject(e.Topic, e.Key)]:
		p.park(e, place{pending: true}, nil) // it halts its key when the earlier ones have arrived
	case o != nil:
		p.giveUp(e, failure(e, o))
	case waits:
		p.wait(e, hold)
	default:
		if s.AfterLastAttempt == PolicyHaltKey && e.HasKey() {
			if p.sending == nil {
				p.sending = map[subject]bool{}
			}
			p.sending[keySubject(e.Topic, e.Key)] = true
		}
		p.messages = append(p.messages, m)
		p.events = append(p.events, i)
	}
}

// fencePatience is how long events of a topic in commit order wait where they are, for a transaction that
// may commit earlier ones, before they are parked out of the others' way.
const fencePatience = 500 * time.Millisecond

// wait keeps an event back: behind a hold or, when there is none, until no transaction can commit an
// earlier event of its topic.
func (p *plan) wait(e *outbox.Event, hold *Hold) {
	if hold != nil {
		p.park(e, place{id: hold.ID}, nil)
		return
	}
	known := p.batch.Holds.topic(e.Topic)
	switch {
	case p.batch.FenceAge < fencePatience:
		p.park(e, place{pending: true}, nil)
	case known == nil:
		why := p.batch.Standstill
		if why.Code == "" {
			why = Standstill{"OPEN_TRANSACTION", "a transaction that wrote to the outbox is open and may commit earlier events"}
		}
		i := p.hold(HoldChange{Scope: ScopeTopic, Topic: e.Topic, Cause: CauseCommitOrder, EventID: e.EventID, Draining: true,
			Code: why.Code, Error: why.Error})
		p.park(e, place{index: i}, nil)
	case known.Cause == CauseCommitOrder && !known.parkedIn(e.Shard):
		// It drains, but has nothing in this shard yet: here, too, the others need not wait.
		p.park(e, place{id: known.ID}, nil)
	default: // just let through, or another hold is about to end
		p.park(e, place{pending: true}, nil)
	}
}

// carefulAfter is how many deaths of its worker make a batch be tried one event at a time.
const carefulAfter = 3

// suspect returns the index of the first message up to the last one that was in flight when workers died,
// once they died often enough for that to be no accident; otherwise -1. It is the one with the smallest
// id, so it overtakes none of its key.
func (p *plan) suspect() int {
	b, found := p.batch, -1
	if b.Crashes < carefulAfter {
		return -1
	}
	for i, n := range p.events {
		id := b.Events[n].ID
		if id <= b.SuspectLast && (found < 0 || id < b.Events[p.events[found]].ID) {
			found = i
		}
	}
	return found
}

// park makes an event wait, and the later ones of its key with it.
func (p *plan) park(e *outbox.Event, at place, f *Failure) {
	if !at.pending {
		p.out.Parked = append(p.out.Parked, Park{ID: e.ID, Shard: e.Shard, HoldID: at.id, Hold: at.index, Failure: f})
	}
	if e.HasKey() {
		p.behind[keySubject(e.Topic, e.Key)] = at
	}
}

// hold adds a hold change once per subject and returns its index. A fault takes the place of a wait for commit
// order, which nobody would see otherwise: it has a cause, and probes.
func (p *plan) hold(c HoldChange) int {
	s := subject{c.Scope, c.Topic, string(c.Key), c.Partition, c.Partitions}
	if i, ok := p.renewed[s]; ok {
		if p.out.Holds[i].Cause == CauseCommitOrder && c.Cause != CauseCommitOrder {
			p.out.Holds[i] = c
		}
		return i
	}
	p.out.Holds = append(p.out.Holds, c)
	p.renewed[s] = len(p.out.Holds) - 1
	return len(p.out.Holds) - 1
}

// prove notes that something got through under a hold. It returns true, so that the next one is proven too.
func (p *plan) prove(h *Hold) bool {
	if !h.Draining {
		p.proven[h.ID] = true
	}
	return true
}

// settlement is what to write. A hold that was both proven and renewed in one batch stays held: its
// newest outcome is a failure.
func (p *plan) settlement() *Settlement {
	for id := range p.proven {
		if !p.renewedID(id) {
			p.out.Proven = append(p.out.Proven, id)
		}
	}
	return &p.out
}

func (p *plan) renewedID(id int64) bool {
	for s := range p.renewed {
		if h := p.batch.Holds.bySubject[s]; h != nil && h.ID == id {
			return true
		}
	}
	return false
}

// done counts the events that this plan does anything with; the others stay where they are.
func (p *plan) done() int {
	return len(p.messages) + len(p.out.Exhausted) + len(p.out.Scheduled) + len(p.out.Parked)
}

// moved counts the events that the settlement moves on.
func (p *plan) moved() int {
	return len(p.out.Delivered) + len(p.out.Exhausted) + len(p.out.Scheduled) + len(p.out.Parked)
}
