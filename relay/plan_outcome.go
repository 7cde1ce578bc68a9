package relay

import (
	"fmt"
	"time"

	"github.com/postrider/postrider/relay/outbox"
)

// Pauses between the probes of a hold: they double from the base up to the cap.
const (
	infrastructureProbeBase = 250 * time.Millisecond
	infrastructureProbeCap  = 5 * time.Second
	routeProbeBase          = time.Second
	routeProbeCap           = time.Minute
	stormProbeBase          = 30 * time.Second
	stormProbeCap           = 5 * time.Minute
)

// elsewhere is how long an event without a key waits after its partition failed: then it may go to
// another one.
const elsewhere = time.Second

// CodeTooOld: the event was given up because of its topic's MaxAge.
const CodeTooOld = outbox.CodeMaxAgeExceeded

// settle records the outcome of message i.
func (p *plan) settle(i int, o *Outcome) {
	e := &p.batch.Events[p.events[i]]
	switch o.Class {
	case Delivered:
		p.out.Delivered = append(p.out.Delivered, e.ID)
		p.storms.delivered(e.Topic)
		p.batch.Holds.each(e, p.partition, p.prove)
	case Permanent:
		p.proveRoute(e)
		p.giveUp(e, failure(e, o))
	case Record:
		p.proveRoute(e)
		p.retry(e, o)
	case Infrastructure, Route:
		p.unreachable(e, o)
	case Withheld:
		p.withheld(e)
	}
}

// withheld parks an event behind what kept it back, if that is known; otherwise it stays pending and is
// claimed again.
func (p *plan) withheld(e *outbox.Event) {
	if at, ok := p.behind[keySubject(e.Topic, e.Key)]; ok && e.HasKey() {
		p.park(e, at, nil)
	} else if i, ok := p.renewed[topicSubject(e.Topic)]; ok {
		p.park(e, place{index: i}, nil)
	}
}

// proveRoute notes that the event's topic and partition took a record, even if not this one. A storm does
// not end with a record that was refused.
func (p *plan) proveRoute(e *outbox.Event) {
	p.proveTopic(p.batch.Holds.topic(e.Topic))
	p.batch.Holds.eachPartition(e, p.partition, p.prove)
}

func (p *plan) proveTopic(h *Hold) {
	if h != nil && h.Cause != CauseStorm {
		p.prove(h)
	}
}

// giveUp ends the attempts for an event. During a storm its topic is held instead, but for one probe at a
// time: of those that came back together, too, only the first is given up.
func (p *plan) giveUp(e *outbox.Event, f Failure) {
	s := p.settings(e.Topic)
	tooMany := p.storms.exhausted(e.Topic, s)
	h := p.batch.Holds.topic(e.Topic)
	stormy := h != nil && h.Cause == CauseStorm
	switch {
	case stormy && h.passes(e.Shard, e.ID):
		if i, again := p.renewed[topicSubject(e.Topic)]; again {
			p.park(e, place{index: i}, &f)
			return
		}
		p.holdStorm(e, &f, s, h.Probes+1)
	case stormy:
		p.park(e, place{id: h.ID}, &f)
		return
	case tooMany:
		p.park(e, place{index: p.holdStorm(e, &f, s, 1)}, &f)
		return
	}
	p.exhaust(e, f)
}

func (p *plan) holdStorm(e *outbox.Event, f *Failure, s *TopicSettings, probes int) int {
	return p.hold(HoldChange{Scope: ScopeTopic, Topic: e.Topic, Cause: CauseStorm, Code: f.Code, EventID: e.EventID, Probes: probes,
		ProbeIn: probePause(stormProbeBase, stormProbeCap, probes),
		Error:   fmt.Sprintf("more events of this topic were given up than delivered within %v; the last one: %s", s.StormWindow, f.Error)})
}

// exhaust sends an event to the dead letters, and says what becomes of its key.
func (p *plan) exhaust(e *outbox.Event, f Failure) {
	p.out.Exhausted = append(p.out.Exhausted, f)
	if !e.HasKey() {
		return
	}
	if p.settings(e.Topic).AfterLastAttempt == PolicyHaltKey {
		i := p.hold(HoldChange{Scope: ScopeKey, Topic: e.Topic, Key: e.Key, Cause: CauseHalted, Code: f.Code, Error: f.Error,
			EventID: e.EventID, ProbeIn: Forever, Anchor: true, Shard: e.Shard})
		p.behind[keySubject(e.Topic, e.Key)] = place{index: i}
		return
	}
	// The later ones go once this one is committed as exhausted: a crash in between would let it out after them.
	p.behind[keySubject(e.Topic, e.Key)] = place{pending: true}
	if h := p.batch.Holds.key(e.Topic, e.Key); h != nil && h.passes(e.Shard, e.ID) {
		p.prove(h)
	}
}

// retry spends an attempt: the event is given up, or waits for its next attempt with its key behind it.
func (p *plan) retry(e *outbox.Event, o *Outcome) {
	f := failure(e, o)
	policy := p.settings(e.Topic).Retry
	if policy.Exhausted(f.Attempts, e.MaxAttempts) {
		p.giveUp(e, f)
		return
	}
	delay := policy.Delay(f.Attempts, p.random())
	if !e.HasKey() {
		p.out.Scheduled = append(p.out.Scheduled, Schedule{ID: e.ID, In: delay, Failure: &f})
		return
	}
	i := p.hold(HoldChange{Scope: ScopeKey, Topic: e.Topic, Key: e.Key, Cause: CauseRetry,
		Code: o.Code, Error: o.Message, EventID: e.EventID, Probes: f.Attempts, ProbeIn: delay})
	p.park(e, place{index: i}, &f)
}

// unreachable holds the partition or the topic of an event that could not be sent for no fault of its
// own, unless the topic's settings say that it has waited long enough.
func (p *plan) unreachable(e *outbox.Event, o *Outcome) {
	s := p.settings(e.Topic)
	topic := p.batch.Holds.topic(e.Topic)
	if kept := p.keptFor(e); s.MaxAge > 0 && kept >= s.MaxAge {
		p.condemn(e, topic, Outcome{Class: o.Class, Code: CodeTooOld,
			Message: fmt.Sprintf("not sent for %v (max_age): %s: %s", kept.Round(time.Second), o.Code, o.Message)})
		return
	}
	switch {
	case o.Class == Route && s.RouteDeadLetterAfter > 0 && topic != nil && topic.Cause == CauseRoute && topic.Age >= s.RouteDeadLetterAfter:
		p.condemn(e, topic, *o)
	case o.Class == Route:
		p.holdTopic(e, topic, o, CauseRoute, routeProbeBase, routeProbeCap)
	case o.Partitions == 0:
		p.holdTopic(e, topic, o, CauseInfrastructure, infrastructureProbeBase, infrastructureProbeCap)
	case !e.HasKey():
		p.proveTopic(topic) // it is the partition's fault
		p.out.Scheduled = append(p.out.Scheduled, Schedule{ID: e.ID, In: elsewhere})
	default:
		p.proveTopic(topic)
		probes := 1
		if h := p.batch.Holds.bySubject[subject{scope: ScopePartition, topic: e.Topic, partition: o.Partition, partitions: o.Partitions}]; h != nil {
			probes = h.Probes + 1
		}
		i := p.hold(HoldChange{Scope: ScopePartition, Topic: e.Topic, Partition: o.Partition, Partitions: o.Partitions,
			Cause: CauseInfrastructure, Code: o.Code, Error: o.Message, EventID: e.EventID, Probes: probes,
			ProbeIn: probePause(infrastructureProbeBase, infrastructureProbeCap, probes)})
		p.park(e, place{index: i}, nil)
	}
}

// keptFor is how long outages have kept an event: for as long as its topic or partition has been held for
// one, and at most since it was written. An old event that meets the first failure of an outage, because the
// relay was stopped for long or its key was halted, has not been kept by it yet.
func (p *plan) keptFor(e *outbox.Event) time.Duration {
	var held time.Duration
	longest := func(h *Hold) bool {
		if h.Cause == CauseInfrastructure || h.Cause == CauseRoute {
			held = max(held, h.Age)
		}
		return true
	}
	p.batch.Holds.each(e, p.partition, longest)
	if !e.HasKey() { // it has tried any of them
		for _, h := range p.batch.Holds.partitions[e.Topic] {
			longest(h)
		}
	}
	if e.CreatedAt.IsZero() {
		return 0 // met for the first time
	}
	return min(held, p.batch.Now.Sub(e.CreatedAt))
}

// condemn gives up an event for what is not its fault, and lets the next one behind the hold come.
func (p *plan) condemn(e *outbox.Event, topic *Hold, o Outcome) {
	p.proveTopic(topic)
	p.batch.Holds.eachPartition(e, p.partition, p.prove)
	p.exhaust(e, failure(e, &o))
}

func (p *plan) holdTopic(e *outbox.Event, known *Hold, o *Outcome, cause Cause, base, limit time.Duration) {
	probes := 1
	if known != nil {
		probes = known.Probes + 1
	}
	i := p.hold(HoldChange{Scope: ScopeTopic, Topic: e.Topic, Cause: cause,
		Code: o.Code, Error: o.Message, EventID: e.EventID, Probes: probes, ProbeIn: probePause(base, limit, probes)})
	p.park(e, place{index: i}, nil)
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
