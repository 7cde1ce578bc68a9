package relay

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/postrider/postrider/internal/tracecontext"
	"github.com/postrider/postrider/message"
)

// rules are what a plan decides by, beside its batch.
type rules struct {
	// settings returns the settings of a topic.
	settings func(topic string) *TopicSettings
	// check returns the outcome of a message that can never be sent as it is, or nil. limit is the
	// topic's largest record in bytes, 0 for the publisher's own.
	check func(m *Message, limit int) *Outcome
	// partition says on which of n partitions the key of an event is, as it is sent.
	partition func(e *Event, n int32) int32
	// own says what a topic that Postrider itself writes is for; it is empty for all others.
	own func(topic string) string
	// allowed reports whether events may go to a topic; nil where all may. sourceName is the name of the outbox, which every
	// record carries; empty for none.
	allowed    func(topic string) bool
	sourceName string
	breakers   *breakers
	random     func() float64
	// holdID returns an id for a hold that is to be put in place.
	holdID func() (int64, error)
}

// plan decides about one batch. Before sending it decides which events are sent; after sending, what becomes of each
// event, in the order of ids. It decides and does nothing: every rule about an event is in the files plan*.go.
type plan struct {
	rules
	book   *holdBook
	ctx    context.Context
	events []Event
	// from are the holds that taken events came from, nil for a scheduled one. Of a batch of the log it is empty.
	from  []*Hold
	taken bool
	now   time.Time
	// skips are the reasons for which people asked to give up events, by id. giveUp says that all are to be given up.
	skips  map[int64]string
	giveUp bool
	encode *encoder

	// messages are what to send; eventOf[i] is the index in events of messages[i].
	messages []Message
	eventOf  []int
	// fates say of each event what was decided before sending; nil where all are sent.
	fates []fate

	receipt Receipt
	// hands are the keys of events that were taken.
	hands   map[subject]bool
	changes map[subject]int // indexes in receipt.Holds
	// behind says where the later events of a key must wait, once an earlier one did not go.
	behind map[subject]*Hold
	// parked are the holds behind which the receipt parks events.
	parked  []*Hold
	proven  map[*Hold]bool
	givenUp []Exception
	// unsent are the failures of events that could never be sent.
	unsent []Failure
	// goneKeys are the keys of events that do not go any more, once for each event.
	goneKeys []subject
	// err is why a decision could not be made; then nothing comes of the plan.
	err error
}

// fate is what was decided about an event before anything was sent.
type fate struct {
	kind fateKind
	hold *Hold    // of waits
	why  *Outcome // of unsendable
}

type fateKind byte

const (
	fateSends      fateKind = iota
	fateDelayed             // waits for its own time
	fateWaits               // behind a hold
	fateFollows             // an earlier one of its key in the batch does not go
	fateUnsendable          // can never go as it is
)

// afterGivenUp is where later events of a key wait for an event that is given up in the same batch. They go when that is
// written down: otherwise, after a crash in between, the event that was given up could go after them.
var afterGivenUp = &Hold{}

// planInput is a batch to decide about.
type planInput struct {
	ctx    context.Context // ends the wait for holds that are about to end
	events []Event
	// from are the holds that taken events came from, nil for a scheduled one. Of a batch of the log it is nil.
	from   []*Hold
	giveUp bool
	skips  map[int64]string
	now    time.Time
	// hands are the keys of taken events, which are noted as in hand.
	hands map[subject]bool
}

// newPlan decides which events of a batch are sent. Call it with book.mu held; a batch of the log waits for holds that are
// about to end.
func newPlan(in planInput, book *holdBook, r rules) *plan {
	if r.random == nil {
		r.random = rand.Float64
	}
	events := in.events
	p := &plan{
		rules: r, book: book, events: events, from: in.from, taken: in.from != nil, skips: in.skips, now: in.now, giveUp: in.giveUp,
		ctx: in.ctx, hands: in.hands, encode: newEncoder(r.sourceName, len(events)),
		messages: make([]Message, 0, len(events)), eventOf: make([]int, 0, len(events)),
	}
	if len(events) > 0 {
		book.last = max(book.last, events[len(events)-1].ID)
	}
	var blocked map[subject]bool
	for i := range events {
		f := p.sort(i, blocked)
		if f.kind == fateSends {
			continue
		}
		if p.fates == nil {
			p.fates = make([]fate, len(events))
		}
		p.fates[i] = f
		if e := &events[i]; e.HasKey() && f.kind != fateDelayed && !p.staysAlone(i, f) {
			if blocked == nil {
				blocked = map[subject]bool{}
			}
			blocked[keySubject(e.Topic, e.Key)] = true
		}
	}
	return p
}

// decided notes that the events of the plan are no longer in hand.
func (p *plan) decided() {
	for k := range p.hands {
		if p.book.inHand[k]--; p.book.inHand[k] == 0 {
			delete(p.book.inHand, k)
		}
	}
	p.hands = nil
}

// staysAlone reports whether an event that does not go keeps no other event of its key back. That is so if a circuit
// breaker has it already: later events of the key went long ago, and each event that the breaker keeps is tried once.
func (p *plan) staysAlone(i int, f fate) bool {
	h := p.source(i)
	return h != nil && h.Scope == ScopeFailure && f.kind == fateUnsendable && p.settings(h.Topic).AfterLastAttempt != PolicyHaltKey
}

func (p *plan) source(i int) *Hold {
	if i < len(p.from) {
		return p.from[i]
	}
	return nil
}

// sort decides about event i before anything is sent.
func (p *plan) sort(i int, blocked map[subject]bool) fate {
	e := &p.events[i]
	if e.Delayed {
		return fate{kind: fateDelayed}
	}
	if e.Deleted {
		return fate{kind: fateUnsendable, why: &Outcome{Class: Permanent, Code: CodeEventDeleted,
			Message: "its row was deleted from the log while it waited: its content is lost, and the dead letter is empty; write the event again"}}
	}
	if p.giveUp {
		return fate{kind: fateUnsendable, why: givenUpByHand(e, p.source(i))}
	}
	if blocked != nil && e.HasKey() && blocked[keySubject(e.Topic, e.Key)] {
		return fate{kind: fateFollows}
	}
	if h := p.waitsFor(e, p.source(i)); h != nil {
		p.count(i, h)
		return fate{kind: fateWaits, hold: h}
	}
	if reason, asked := p.skips[e.ID]; asked {
		return fate{kind: fateUnsendable, why: &Outcome{Class: Permanent, Code: CodeSkipped, Message: "skipped by hand: " + reason}}
	}
	if use := p.own(e.Topic); use != "" && !e.OfTask {
		return fate{kind: fateUnsendable, why: &Outcome{Class: Permanent, Code: CodeReservedTopic,
			Message: fmt.Sprintf("the topic %s is Postrider's own, for %s: services write to topics of theirs", e.Topic, use)}}
	}
	if p.allowed != nil && !e.OfTask && !p.allowed(e.Topic) {
		return fate{kind: fateUnsendable, why: &Outcome{Class: Permanent, Code: CodeTopicNotAllowed,
			Message: fmt.Sprintf("the source %s may not write to the topic %s: the settings of the source name its topics (topics.allow)", p.sourceName, e.Topic)}}
	}
	s := p.settings(e.Topic)
	m, o := p.encode.message(e, s.Wire)
	if o == nil {
		o = p.check(&m, s.MaxMessageBytes)
	}
	if o != nil {
		return fate{kind: fateUnsendable, why: o}
	}
	p.messages = append(p.messages, m)
	p.eventOf = append(p.eventOf, i)
	return fate{}
}

// waitsFor returns the hold that keeps an event back. If that hold is about to end, waitsFor waits for the end. If an
// earlier event of the key was given up, it waits until that is written down.
func (p *plan) waitsFor(e *Event, from *Hold) *Hold {
	for {
		if len(p.book.givenUp) > 0 && e.HasKey() && p.book.givenUp[keySubject(e.Topic, e.Key)] > 0 && p.ctx.Err() == nil {
			p.book.changed.Wait()
			continue
		}
		h := p.book.awaits(e, from, p.taken, p.partition)
		// A hold behind which this plan parks already ends only after this batch is written.
		if h == nil || !h.closing || p.taken || p.ctx.Err() != nil || slices.Contains(p.parked, h) {
			return h
		}
		p.book.changed.Wait()
	}
}

// count notes that event i will be parked behind a hold, so that the hold cannot end before. If the event is older than
// events that the hold let through, it comes late, from a gap, its time or another hold: then the hold lets events through
// from this one on again. An event that came from this hold is not tried again with them. Nor is an event that a circuit
// breaker keeps because it has just failed.
func (p *plan) count(i int, h *Hold) {
	id := p.events[i].ID
	if p.source(i) == h || h.Scope == ScopeFailure {
		id = 0
	} else {
		h.through = min(h.through, id-1)
	}
	if h.park(p, id) {
		p.parked = append(p.parked, h)
	}
}

// undo takes back what the plan has noted, when nothing comes of it. Call it with book.mu held.
func (p *plan) undo() {
	for _, h := range p.parked {
		delete(h.parking, p)
	}
	p.parked = nil
	p.decided()
}

// conclude decides what becomes of every event, in the order of ids, and returns the receipt. outcomes has the outcome of
// each message. Call it with book.mu held.
func (p *plan) conclude(outcomes []Outcome) (*Receipt, error) {
	defer p.decided()
	if p.fates == nil && !p.taken && len(p.book.bySubject) == 0 && allDelivered(outcomes) {
		p.receipt.Sent = len(p.events)
		return &p.receipt, nil
	}
	p.changes, p.behind, p.proven = map[subject]int{}, map[subject]*Hold{}, map[*Hold]bool{}
	next := 0 // of messages
	for i := range p.events {
		e := &p.events[i]
		var f fate
		if p.fates != nil {
			f = p.fates[i]
		}
		switch f.kind {
		case fateSends:
			p.decideSent(i, e, &outcomes[next])
			next++
		case fateDelayed:
			p.schedule(e, 0, nil)
		case fateWaits:
			p.park(e, f.hold, nil)
		case fateFollows:
			p.follow(i, e)
		case fateUnsendable:
			if p.comesAfter(e) {
				p.follow(i, e)
				continue
			}
			p.unsent = append(p.unsent, failure(e, f.why))
			p.giveUpEvent(i, e, failure(e, f.why))
		}
	}
	for h := range p.proven {
		if _, renewed := p.changes[h.subject()]; !renewed && !h.Draining {
			h.Draining = true
			p.change(h)
		}
	}
	p.book.writing(p.receipt.Holds)
	return &p.receipt, p.err
}

// comesAfter reports whether an earlier event of the key, which was sent, waits by now: this one is not given up before its
// turn.
func (p *plan) comesAfter(e *Event) bool {
	if p.giveUp || !e.HasKey() {
		return false
	}
	h := p.behind[keySubject(e.Topic, e.Key)]
	return h != nil && h != afterGivenUp
}

func allDelivered(outcomes []Outcome) bool {
	for i := range outcomes {
		if outcomes[i].Class != Delivered {
			return false
		}
	}
	return true
}

// givenUpByHand says why an event did not go: by its own last error, or by the error of the hold that kept it.
func givenUpByHand(e *Event, from *Hold) *Outcome {
	o := &Outcome{Class: Permanent, Code: e.LastErrorCode, Message: e.LastError}
	if o.Code == "" && from != nil {
		o.Code, o.Message = from.ErrorCode, from.Error
	}
	if o.Code == "" {
		o.Code, o.Message = CodeSkipped, "given up by hand, with all that waited with it"
	}
	return o
}

// asChange is the hold as it is to be written.
func (h *Hold) asChange() HoldChange {
	c := HoldChange{ID: h.ID, New: h.fresh, Answered: h.answered, Scope: h.Scope, Topic: h.Topic, Key: h.Key, Partition: h.Partition,
		Partitions: h.Partitions, FailureCode: h.Code, Cause: h.Cause, Code: h.ErrorCode, Error: h.Error, EventID: h.EventID,
		Probes: h.Probes, ProbeIn: h.probeIn, Draining: h.Draining}
	h.fresh, h.answered = false, false
	return c
}

// change writes a hold as it is now.
func (p *plan) change(h *Hold) {
	c, s := h.asChange(), h.subject()
	if i, ok := p.changes[s]; ok {
		old := &p.receipt.Holds[i]
		c.New, c.Answered = old.New || c.New, old.Answered || c.Answered
		*old = c
		return
	}
	p.receipt.Holds = append(p.receipt.Holds, c)
	p.changes[s] = len(p.receipt.Holds) - 1
}

// hold puts a hold in place, or renews it, once per subject and batch.
func (p *plan) hold(want Hold) *Hold {
	s := want.subject()
	h := p.book.bySubject[s]
	if h == nil {
		id, err := p.holdID()
		p.err = errors.Join(p.err, err)
		h = &want
		h.ID, h.since, h.fresh = id, p.book.now(), true
		p.book.add(h)
	} else if _, renewed := p.changes[s]; renewed || h.Cause == CauseHalted && !h.Draining && h.EventID != want.EventID {
		return h // a halted key waits for a person, also when another event of it fails
	} else {
		if h.Cause != want.Cause {
			h.since = p.book.now()
		}
		h.Cause, h.ErrorCode, h.Error, h.EventID = want.Cause, want.ErrorCode, want.Error, want.EventID
		h.Probes, h.probeIn, h.Draining, h.through = want.Probes, want.probeIn, want.Draining, 0
		p.book.reopen(h)
	}
	p.change(h)
	return h
}

// park makes an event wait behind a hold, and the later ones of its key with it.
func (p *plan) park(e *Event, h *Hold, f *Failure) {
	x := p.exception(e, Parked, f)
	x.Hold = h.ID
	p.receipt.Exceptions = append(p.receipt.Exceptions, x)
	if e.HasKey() {
		p.behind[keySubject(e.Topic, e.Key)] = h
	}
}

// parkAnew is park for an event that was not counted behind the hold before.
func (p *plan) parkAnew(i int, h *Hold, f *Failure) {
	p.count(i, h)
	p.park(&p.events[i], h, f)
}

// schedule makes an event wait for a time; if that is 0, for the event's own time.
func (p *plan) schedule(e *Event, in time.Duration, f *Failure) {
	x := p.exception(e, Scheduled, f)
	x.In = in
	p.receipt.Exceptions = append(p.receipt.Exceptions, x)
}

func (p *plan) exception(e *Event, state State, f *Failure) Exception {
	x := Exception{ID: e.ID, EventID: e.EventID, Topic: e.Topic, State: state, Attempts: e.Attempts, TaskUUID: e.TaskUUID, MaxAttempts: e.MaxAttempts}
	if f != nil {
		x.Failure, x.Attempts = *f, f.Attempts
		if x.MaxAttempts == 0 {
			x.MaxAttempts = p.settings(e.Topic).Retry.MaxAttempts
		}
	}
	return x
}

// follow parks an event because an earlier event of its key did not go.
func (p *plan) follow(i int, e *Event) {
	var h *Hold
	if e.HasKey() {
		h = p.behind[keySubject(e.Topic, e.Key)]
	}
	if h == afterGivenUp {
		h = p.hold(Hold{Scope: ScopeKey, Topic: e.Topic, Key: e.Key, Cause: CauseRetry, ErrorCode: CodeWithheld,
			Error: "an earlier event of the key was given up in the same batch", Draining: true})
	}
	if h == nil {
		if s, ok := p.changes[topicSubject(e.Topic)]; ok {
			h = p.book.byID[p.receipt.Holds[s].ID]
		}
	}
	switch {
	case h != nil:
		p.parkAnew(i, h, nil)
	case p.taken:
		p.receipt.Putback = append(p.receipt.Putback, e.ID)
	case e.HasKey():
		h = p.hold(Hold{Scope: ScopeKey, Topic: e.Topic, Key: e.Key, Cause: CauseRetry, ErrorCode: CodeWithheld,
			Error: "it was not sent, because time ran out or an earlier record of its partition has no answer yet", EventID: uuid.Nil, probeIn: elsewhere})
		p.parkAnew(i, h, nil)
	default:
		p.schedule(e, elsewhere, nil)
	}
}

// givenUpTraces returns the traces of the events that were given up, by the events' ids, as far as their headers can be
// read: also of an event that could not be sent for them, or for its size. One pass serves all: a batch may give up each of
// its events.
func (p *plan) givenUpTraces() map[int64]string {
	traces := make(map[int64]string, len(p.givenUp))
	for i := range p.givenUp {
		traces[p.givenUp[i].ID] = ""
	}
	for i := range p.events {
		e := &p.events[i]
		if _, given := traces[e.ID]; given {
			hs, _ := message.ReadableHeaders(e.Headers) // the readable ones
			traces[e.ID] = tracecontext.ID(hs)
		}
	}
	return traces
}
