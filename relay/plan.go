package relay

import (
	"math/rand/v2"
	"time"

	"github.com/postrider/postrider/relay/outbox"
)

// Pauses between the probes of a topic hold: they double from the base up to the cap.
const (
	infrastructureProbeBase = 250 * time.Millisecond
	infrastructureProbeCap  = 5 * time.Second
	routeProbeBase          = time.Second
	routeProbeCap           = time.Minute
)

// plan turns one batch into messages to send and, with their outcomes, into a settlement. It decides
// and does nothing: every rule about what happens to an event is here.
type plan struct {
	batch  *Batch
	policy outbox.RetryPolicy
	random func() float64

	// messages are what to send; events[i] is the index in batch.Events of messages[i].
	messages []Message
	events   []int
	out      Settlement

	// renewed finds the hold changes of this settlement by what they hold.
	renewed map[holdSubject]int
	// behind says where the later events of a key must wait, once an earlier one did not go.
	behind map[subject]parkPlace
	proven map[int64]bool
}

type holdSubject struct {
	scope Scope
	subject
}

// parkPlace is a hold that exists (id) or one of this settlement (index).
type parkPlace struct {
	id    int64
	index int
}

// newPlan sorts the events of a batch into those to send and those that wait or are given up unsent.
func newPlan(b *Batch, policy outbox.RetryPolicy, check func(*Message) *Outcome) *plan {
	p := &plan{batch: b, policy: policy, random: rand.Float64,
		messages: make([]Message, 0, len(b.Events)), events: make([]int, 0, len(b.Events)),
		renewed: map[holdSubject]int{}, behind: map[subject]parkPlace{}, proven: map[int64]bool{}}
	for i := range b.Events {
		p.sort(i, check)
	}
	return p
}

// sort decides about event i before anything is sent. Parked events are the probes of their hold, so an
// event is parked only when it can go as soon as the hold ends. A probe that cannot would prove nothing,
// and everything behind it would wait for the next one.
func (p *plan) sort(i int, check func(*Message) *Outcome) {
	e := &p.batch.Events[i]
	if e.Delayed {
		p.out.Scheduled = append(p.out.Scheduled, Schedule{ID: e.ID})
		return
	}
	m, o := message(e)
	if o == nil {
		o = check(&m)
	}
	if o != nil {
		p.giveUp(e, o)
		if h := p.batch.Holds.key(e.Topic, e.Key); h != nil && h.passes(e.Shard, e.ID) {
			p.prove(h) // it was the probe; never tried, it says nothing about its topic
		}
		return
	}
	if h := p.batch.Holds.Of(e); h != nil {
		p.park(e, parkPlace{id: h.ID}, nil)
		return
	}
	p.messages = append(p.messages, m)
	p.events = append(p.events, i)
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

// settle records the outcome of message i.
func (p *plan) settle(i int, o *Outcome) {
	e := &p.batch.Events[p.events[i]]
	switch o.Class {
	case Delivered:
		p.out.Delivered = append(p.out.Delivered, e.ID)
		p.proveTopic(e)
		p.proveKey(e)
	case Permanent:
		p.giveUp(e, o)
		p.proveTopic(e)
		p.proveKey(e)
	case Record:
		p.proveTopic(e)
		p.retry(e, o)
	case Infrastructure:
		p.holdTopic(e, o, CauseInfrastructure, infrastructureProbeBase, infrastructureProbeCap)
	case Route:
		p.holdTopic(e, o, CauseRoute, routeProbeBase, routeProbeCap)
	case Withheld:
		if place, ok := p.behind[subject{e.Topic, string(e.Key)}]; ok && e.HasKey() {
			p.park(e, place, nil)
		} else if i, ok := p.renewed[holdSubject{ScopeTopic, subject{topic: e.Topic}}]; ok {
			p.park(e, parkPlace{index: i}, nil)
		}
		// Otherwise it stays pending and is claimed again.
	}
}

func (p *plan) park(e *outbox.Event, at parkPlace, f *Failure) {
	p.out.Parked = append(p.out.Parked, Park{ID: e.ID, Shard: e.Shard, HoldID: at.id, Hold: at.index, Failure: f})
	if e.HasKey() {
		p.behind[subject{e.Topic, string(e.Key)}] = at
	}
}

func (p *plan) giveUp(e *outbox.Event, o *Outcome) {
	p.out.Exhausted = append(p.out.Exhausted, failure(e, o))
}

// retry spends an attempt: the event is given up, or waits for its next attempt with its key behind it.
func (p *plan) retry(e *outbox.Event, o *Outcome) {
	f := failure(e, o)
	if p.policy.Exhausted(f.Attempts, e.MaxAttempts) {
		p.out.Exhausted = append(p.out.Exhausted, f)
		p.proveKey(e)
		return
	}
	delay := p.policy.Delay(f.Attempts, p.random())
	if !e.HasKey() {
		p.out.Scheduled = append(p.out.Scheduled, Schedule{ID: e.ID, In: delay, Failure: &f})
		return
	}
	i := p.hold(HoldChange{Scope: ScopeKey, Topic: e.Topic, Key: e.Key, Cause: CauseRetry,
		Code: o.Code, Error: o.Message, EventID: e.EventID, Probes: f.Attempts, ProbeIn: delay})
	p.park(e, parkPlace{index: i}, &f)
}

func (p *plan) holdTopic(e *outbox.Event, o *Outcome, cause Cause, base, limit time.Duration) {
	probes := 1
	if h := p.batch.Holds.topic(e.Topic); h != nil {
		probes = h.Probes + 1
	}
	i := p.hold(HoldChange{Scope: ScopeTopic, Topic: e.Topic, Cause: cause,
		Code: o.Code, Error: o.Message, EventID: e.EventID, Probes: probes, ProbeIn: probePause(base, limit, probes)})
	p.park(e, parkPlace{index: i}, nil)
}

// hold adds a hold change once per subject and returns its index.
func (p *plan) hold(c HoldChange) int {
	s := holdSubject{c.Scope, subject{c.Topic, string(c.Key)}}
	if i, ok := p.renewed[s]; ok {
		return i
	}
	p.out.Holds = append(p.out.Holds, c)
	p.renewed[s] = len(p.out.Holds) - 1
	return len(p.out.Holds) - 1
}

func (p *plan) proveTopic(e *outbox.Event) { p.prove(p.batch.Holds.topic(e.Topic)) }
func (p *plan) proveKey(e *outbox.Event)   { p.prove(p.batch.Holds.key(e.Topic, e.Key)) }

func (p *plan) prove(h *Hold) {
	if h != nil && !h.Draining {
		p.proven[h.ID] = true
	}
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
		h := p.batch.Holds.topic(s.topic)
		if s.scope == ScopeKey {
			h = p.batch.Holds.key(s.topic, []byte(s.key))
		}
		if h != nil && h.ID == id {
			return true
		}
	}
	return false
}

func failure(e *outbox.Event, o *Outcome) Failure {
	return Failure{ID: e.ID, Attempts: e.Attempts + 1, Class: o.Class, Code: o.Code, Error: o.Message}
}

// probePause doubles from base to limit.
func probePause(base, limit time.Duration, probes int) time.Duration {
	d := base
	for i := 1; i < probes && d < limit; i++ {
		d *= 2
	}
	return min(d, limit)
}
