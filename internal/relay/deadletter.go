package relay

import (
	"context"
	"fmt"
	"time"
)

// letterBatch is how many dead letters go in one batch; each may be as large as a payload can be.
const letterBatch = 32

// letterPause is how long a letter waits that its topic refused by its own fault, with all left out that
// can be left out.
const letterPause = time.Minute

// codeInvalidTopicException is the broker's name for a topic that cannot exist.
const codeInvalidTopicException = "INVALID_TOPIC_EXCEPTION"

// LetterClaim is a set of exhausted events that are locked until Settle or Abandon.
type LetterClaim interface {
	Events() []Event
	// Desk is the identity of the desk that the outbox obeys; empty where it obeys none yet.
	Desk() string
	// Settle writes what became of the letters and commits.
	Settle(ctx context.Context, s *LetterSettlement) error
	// Abandon gives the events back with nothing changed.
	Abandon()
}

// LetterSettlement is what became of a claim of letters.
type LetterSettlement struct {
	// Delivered are ids that their dead-letter topic acknowledged.
	Delivered []int64
	// Postponed are ids whose letter was refused by its own fault; they are offered again after PostponeFor.
	Postponed   []int64
	PostponeFor time.Duration
	// Holds are put on dead-letter topics that take nothing; the holds of the topics in Lifted end.
	Holds  []HoldChange
	Lifted []string
}

// lettersSoon and lettersPause bound the pauses before exhausted events are looked for that another relay left.
const (
	lettersSoon  = 20 * time.Millisecond
	lettersPause = 250 * time.Millisecond
)

// sendLetters is the second step of dead-lettering: it publishes exhausted events to their dead-letter
// topics and settles them. When a topic cannot take them they stay exhausted, and a hold says why.
func (r *Relay) sendLetters(ctx context.Context) (sent int, err error) {
	if r.brokers.away() {
		return 0, &brokersLost{}
	}
	letterTopic := func(topic string) string { return r.settings(topic).DLQTopic }
	began := time.Now()
	claim, err := r.cfg.Store.ClaimLetters(ctx, letterTopic, letterBatch)
	if err != nil {
		return 0, fmt.Errorf("claim dead letters: %w", err)
	}
	if claim == nil {
		return 0, nil
	}
	work := context.WithoutCancel(ctx)
	pass := r.tracing.pass(work, actionDeadLetter, actionDeadLetter, began, time.Now(), len(claim.Events()))
	defer func() { pass.close(err) }()
	work = pass.in(work)
	events := claim.Events()
	for i := range events {
		events[i].Wired = r.settings(events[i].Topic).Wire != nil
	}
	ls := newLetters(events, letterTopic)
	ls.source, ls.desk = r.cfg.Source, claim.Desk()
	// The time for sending begins after the letters are encoded. If encoding used it up, all letters would be withheld
	// without a word, and again the next time.
	ms := ls.messages(r.cfg.Publisher.Check)
	bounded, cancel := context.WithTimeout(work, r.cfg.PublishTimeout)
	defer cancel()
	for len(ls.pending) > 0 {
		sending := pass.publish(ms)
		outcomes := r.cfg.Publisher.Publish(bounded, ms)
		sending.end(outcomes)
		if err := r.lost(work, outcomes); err != nil && len(ls.sent) == 0 {
			claim.Abandon()
			return 0, &brokersLost{err}
		}
		ls.applyOutcomes(ms, outcomes)
		ms = ls.messages(r.cfg.Publisher.Check)
	}
	settling, cancelSettle := context.WithTimeout(work, settleTimeout)
	defer cancelSettle()
	err = claim.Settle(pass.settle(settling), &ls.out)
	pass.settled(len(ls.events), len(ls.sent), len(ls.events)-len(ls.sent), len(ls.sent), err)
	if err != nil {
		r.cfg.Publisher.Remember(ls.sent)
		return 0, fmt.Errorf("settle %d dead letters: %w", len(ls.sent), err)
	}
	r.metrics.deadLettered.Add(float64(len(ls.sent)))
	r.metrics.settled(actionDeadLetter, len(ls.sent))
	r.logLetters(ls)
	return len(ls.sent), nil
}

func (r *Relay) logLetters(ls *letters) {
	for i := range ls.out.Holds {
		h := &ls.out.Holds[i]
		r.cfg.Logger.Error("dead letters cannot be sent, the events stay", "topic", h.Topic,
			"error_code", h.Code, "err", h.Error, "waiting", len(ls.events)-len(ls.sent))
	}
	for _, id := range ls.out.Postponed {
		o := ls.refused[id]
		r.cfg.Logger.Error("a dead letter was refused, the event stays", "id", id, "topic", o.topic,
			"error_code", o.Code, "err", o.Message, "retry_in", letterPause.String())
	}
}

// letters is one batch of letters on its way, and what became of them so far.
type letters struct {
	source  string // of the outbox; empty for none
	desk    string // that it obeys; empty for none
	events  []Event
	topics  []string // the dead-letter topic of each event
	fits    []fit
	pending []int
	sent    []Message
	refused map[int64]refusal
	// holds are the holds to put in place, by topic; reached are the topics that took a letter.
	holds   map[string]HoldChange
	reached map[string]bool
	out     LetterSettlement
}

type refusal struct {
	Outcome
	topic string
}

func newLetters(events []Event, letterTopic func(string) string) *letters {
	ls := &letters{events: events, topics: make([]string, len(events)), fits: make([]fit, len(events)),
		pending: make([]int, len(events)), refused: map[int64]refusal{}, holds: map[string]HoldChange{}, reached: map[string]bool{}}
	for i := range events {
		ls.pending[i], ls.topics[i] = i, letterTopic(events[i].Topic)
	}
	ls.out.PostponeFor = letterPause
	return ls
}

// messages encodes the pending letters, as whole as fits.
func (ls *letters) messages(check func(*Message, int) *Outcome) []Message {
	ms := make([]Message, len(ls.pending))
	for i, n := range ls.pending {
		ms[i], ls.fits[n] = letter(&ls.events[n], ls.source, ls.desk, ls.topics[n], ls.fits[n], check)
	}
	return ms
}

// applyOutcomes notes the outcomes of the pending letters. Letters that were too large stay pending, with less in them. When
// no letter is pending any more, applyOutcomes completes the settlement.
func (ls *letters) applyOutcomes(ms []Message, outcomes []Outcome) {
	var again []int
	for i, o := range outcomes {
		n := ls.pending[i]
		topic, id := ls.topics[n], ls.events[n].ID
		if o.Code == codeInvalidTopicException {
			o.Class = Route // a setting names the topic: no letter is at fault
		}
		switch {
		case o.Class == Delivered:
			ls.out.Delivered = append(ls.out.Delivered, id)
			ls.sent = append(ls.sent, ms[i])
			ls.reached[topic] = true
		case o.Class == Permanent && ls.fits[n] < bare:
			// Too large for this topic after all: say less.
			ls.fits[n]++
			again = append(again, n)
		case o.Class == Permanent || o.Class == Record:
			ls.out.Postponed = append(ls.out.Postponed, id)
			ls.refused[id] = refusal{o, topic}
			ls.reached[topic] = true // the others may go
		case o.Class == Withheld: // stays as it is
		default:
			if _, known := ls.holds[topic]; !known {
				ls.holds[topic] = letterHold(topic, &ls.events[n], &o)
			}
		}
	}
	ls.pending = again
	if len(again) > 0 {
		return
	}
	for topic, h := range ls.holds {
		ls.out.Holds = append(ls.out.Holds, h)
		delete(ls.reached, topic)
	}
	for topic := range ls.reached {
		ls.out.Lifted = append(ls.out.Lifted, topic)
	}
}

func letterHold(topic string, e *Event, o *Outcome) HoldChange {
	h := HoldChange{Scope: ScopeDeadLetter, Topic: topic, Cause: CauseInfrastructure, Code: o.Code, Error: o.Message,
		EventID: e.EventID, ProbeIn: time.Second}
	if o.Class == Route {
		h.Cause, h.ProbeIn = CauseRoute, 5*time.Second
	}
	return h
}
