package relay

import (
	"fmt"
	"time"

	"github.com/postrider/postrider/message"
)

// Pauses between the probes of a hold: they double from the base up to the cap.
const (
	infrastructureProbeBase = 250 * time.Millisecond
	infrastructureProbeCap  = 5 * time.Second
	routeProbeBase          = time.Second
	routeProbeCap           = time.Minute
	breakerProbeBase        = 30 * time.Second
	breakerProbeCap         = 5 * time.Minute
)

// elsewhere is how long an event without a key waits after its partition failed: then it may go to
// another one.
const elsewhere = time.Second

// CodeTooOld: the event was given up because of its topic's MaxAge.
const CodeTooOld = message.CodeMaxAgeExceeded

// decideSent decides about event i, which was sent.
func (p *plan) decideSent(i int, e *Event, o *Outcome) {
	switch o.Class {
	case Delivered:
		p.receipt.Sent++
		if p.taken {
			p.receipt.Gone = append(p.receipt.Gone, e.ID)
		}
		p.proveAll(i, e)
	case Permanent:
		p.proveRoute(e)
		p.giveUpEvent(i, e, failure(e, o))
	case Record:
		p.proveRoute(e)
		p.retry(i, e, o)
	case Infrastructure, Route:
		p.unreachable(i, e, o)
	case Withheld:
		p.follow(i, e)
	}
}

// proveAll notes that an event got through under the holds that bear on it.
func (p *plan) proveAll(i int, e *Event) {
	if h := p.source(i); h != nil {
		p.proven[h] = true
	}
	p.book.each(e, p.partition, func(h *Hold) bool {
		if h.Scope != ScopeKey || h.lets(e) { // it may have been on its way when its key was halted
			p.proven[h] = true
		}
		return true
	})
}

// proveRoute notes that the event's topic and partition took a record, even if not this one.
func (p *plan) proveRoute(e *Event) {
	if h := p.book.topic(e.Topic); h != nil {
		p.proven[h] = true
	}
	p.provePartition(e)
}

func (p *plan) provePartition(e *Event) {
	p.book.eachPartition(e, p.partition, func(h *Hold) bool {
		p.proven[h] = true
		return true
	})
}

// giveUpEvent gives an event up, unless so many events fail in this way that a circuit breaker keeps them.
func (p *plan) giveUpEvent(i int, e *Event, f Failure) {
	s := p.settings(e.Topic)
	if p.giveUp || f.Code == CodeSkipped {
		p.exhaust(i, e, f)
		return
	}
	open := p.book.failure(e.Topic, f.Code)
	again := open != nil && p.source(i) == open // it was tried again, and it is not better
	tooMany := p.breakers.failed(e.Topic, f.Code, s)
	switch {
	case s.BreakerEvents < 0 || !again && !tooMany && open == nil:
		p.exhaust(i, e, f)
		return
	case open != nil && open.Draining: // all its events are tried first: endEmpty then sets the next probe
		open.kept = true
	case open == nil || again:
		probes := 1
		if open != nil {
			probes = open.Probes + 1
		}
		open = p.hold(Hold{
			Scope:     ScopeFailure,
			Topic:     e.Topic,
			Code:      f.Code,
			Cause:     CauseBreaker,
			ErrorCode: f.Code,
			EventID:   e.EventID,
			Probes:    probes,
			probeIn:   probePause(breakerProbeBase, breakerProbeCap, probes),
			Error: fmt.Sprintf("more than %d events of this topic failed like this within %g s; the last one: %s",
				s.BreakerEvents, s.BreakerWindow.Seconds(), f.Error),
		})
	}
	if p.fates != nil && p.fates[i].kind == fateUnsendable {
		f.Attempts = e.Attempts // it was not sent
	}
	p.parkAnew(i, open, &f)
	p.keyAfter(e, f)
}

// exhaust sends an event to the dead letters, and says what becomes of its key.
func (p *plan) exhaust(i int, e *Event, f Failure) {
	x := p.exception(e, Exhausted, &f)
	p.receipt.Exceptions = append(p.receipt.Exceptions, x)
	p.givenUp = append(p.givenUp, x)
	if _, asked := p.skips[e.ID]; asked {
		p.receipt.Skipped = append(p.receipt.Skipped, e.ID)
	}
	p.keyAfter(e, f)
}

// keyAfter says what becomes of the key of an event that does not go any more.
func (p *plan) keyAfter(e *Event, f Failure) {
	if !e.HasKey() {
		return
	}
	if p.settings(e.Topic).AfterLastAttempt == PolicyHaltKey && f.Code != CodeSkipped { // the operator who skipped it has decided
		p.behind[keySubject(e.Topic, e.Key)] = p.hold(Hold{Scope: ScopeKey, Topic: e.Topic, Key: e.Key, Cause: CauseHalted,
			ErrorCode: f.Code, Error: f.Error, EventID: e.EventID, probeIn: Forever})
		return
	}
	key := keySubject(e.Topic, e.Key)
	p.behind[key] = afterGivenUp
	p.book.givenUp[key]++
	p.goneKeys = append(p.goneKeys, key)
	if h := p.book.key(e.Topic, e.Key); h != nil && h.lets(e) {
		p.proven[h] = true
	}
}

// retry spends an attempt: the event is given up, or waits for its next attempt with the later events of its key behind it.
func (p *plan) retry(i int, e *Event, o *Outcome) {
	f := failure(e, o)
	policy := p.settings(e.Topic).Retry
	if policy.Exhausted(f.Attempts, e.MaxAttempts) {
		p.giveUpEvent(i, e, f)
		return
	}
	delay := policy.Delay(f.Attempts, p.random())
	if !e.HasKey() {
		p.schedule(e, delay, &f)
		return
	}
	h := p.hold(Hold{Scope: ScopeKey, Topic: e.Topic, Key: e.Key, Cause: CauseRetry,
		ErrorCode: o.Code, Error: o.Message, EventID: e.EventID, Probes: f.Attempts, probeIn: delay})
	p.parkAnew(i, h, &f)
}

// unreachable holds the partition or the topic of an event that could not be sent for no fault of its
// own, unless the topic's settings say that it has waited long enough.
func (p *plan) unreachable(i int, e *Event, o *Outcome) {
	s := p.settings(e.Topic)
	topic := p.book.topic(e.Topic)
	if kept := p.keptFor(e); s.MaxAge > 0 && kept >= s.MaxAge {
		p.condemn(i, e, topic, Outcome{Class: o.Class, Code: CodeTooOld,
			Message: fmt.Sprintf("not sent for %v (max_age): %s: %s", kept.Round(time.Second), o.Code, o.Message)})
		return
	}
	switch {
	case o.Class == Route && s.RouteDeadLetterAfter > 0 && topic != nil && topic.Cause == CauseRoute && p.age(topic) >= s.RouteDeadLetterAfter:
		p.condemn(i, e, topic, *o)
	case o.Class == Route:
		p.holdTopic(i, e, topic, o, CauseRoute, routeProbeBase, routeProbeCap)
	case o.Partitions == 0:
		p.holdTopic(i, e, topic, o, CauseInfrastructure, infrastructureProbeBase, infrastructureProbeCap)
	case e.goesAnywhere():
		p.proveTopic(topic) // it is the partition's fault
		p.schedule(e, elsewhere, nil)
	default:
		p.proveTopic(topic)
		probes := 1
		if h := p.book.partition(e.Topic, o.Partition, o.Partitions); h != nil {
			probes = h.Probes + 1
		}
		h := p.hold(Hold{Scope: ScopePartition, Topic: e.Topic, Partition: o.Partition, Partitions: o.Partitions,
			Cause: CauseInfrastructure, ErrorCode: o.Code, Error: o.Message, EventID: e.EventID, Probes: probes,
			probeIn: probePause(infrastructureProbeBase, infrastructureProbeCap, probes)})
		p.parkAnew(i, h, nil)
	}
}

func (p *plan) proveTopic(h *Hold) {
	if h != nil {
		p.proven[h] = true
	}
}

func (p *plan) age(h *Hold) time.Duration { return p.book.now().Sub(h.since) }

// keptFor is how long outages have kept an event: for as long as its topic or partition has been held for
// one, and at most since it was written. An old event that meets the first failure of an outage, because the
// relay was stopped for long or its key was halted, has not been kept by it yet.
func (p *plan) keptFor(e *Event) time.Duration {
	var held time.Duration
	longest := func(h *Hold) bool {
		if h.Cause == CauseInfrastructure || h.Cause == CauseRoute {
			held = max(held, p.age(h))
		}
		return true
	}
	p.book.each(e, p.partition, longest)
	if e.goesAnywhere() { // it has tried any of them
		for _, h := range p.book.partitions[e.Topic] {
			longest(h)
		}
	}
	return min(held, p.now.Sub(e.CreatedAt))
}

// condemn gives up an event for a failure that is not its fault, and lets the next event behind the hold come.
func (p *plan) condemn(i int, e *Event, topic *Hold, o Outcome) {
	p.proveTopic(topic)
	p.provePartition(e)
	p.exhaust(i, e, failure(e, &o))
}

func (p *plan) holdTopic(i int, e *Event, known *Hold, o *Outcome, cause Cause, base, limit time.Duration) {
	probes := 1
	if known != nil {
		probes = known.Probes + 1
	}
	h := p.hold(Hold{Scope: ScopeTopic, Topic: e.Topic, Cause: cause, ErrorCode: o.Code, Error: o.Message, EventID: e.EventID,
		Probes: probes, probeIn: probePause(base, limit, probes)})
	p.parkAnew(i, h, nil)
}

func failure(e *Event, o *Outcome) Failure {
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
