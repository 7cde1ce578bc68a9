package relay

import (
	"context"
	"fmt"
	"time"

	"github.com/postrider/postrider/relay/outbox"
)

// letterBatch is how many dead letters go in one batch; each may be as large as a payload can be.
const letterBatch = 32

// sendLetters is the second step of dead-lettering: it publishes exhausted events to the dead-letter
// topic and settles them. When that topic cannot take them they stay exhausted, and a hold says why.
func (r *Relay) sendLetters(ctx context.Context) (int, error) {
	r.brokers.wait(ctx)
	claim, err := r.cfg.Store.ClaimLetters(ctx, r.cfg.DLQTopic, letterBatch)
	if err != nil {
		return 0, fmt.Errorf("claim dead letters: %w", err)
	}
	if claim == nil {
		return 0, nil
	}
	work := context.WithoutCancel(ctx)
	events := claim.Events()
	pending := make([]int, len(events))
	fits := make([]fit, len(events))
	for i := range events {
		pending[i] = i
	}
	var ids []int64
	var sent []Message
	var worst *HoldChange
	encode := func() []Message {
		ms := make([]Message, len(pending))
		for i, n := range pending {
			ms[i], fits[n] = letter(&events[n], r.cfg.DLQTopic, fits[n], r.cfg.Publisher.Check)
		}
		return ms
	}
	// The time begins when they are written: with none left for sending, all would be withheld, in silence,
	// and again the next time.
	ms := encode()
	bounded, cancel := context.WithTimeout(work, r.cfg.PublishTimeout)
	defer cancel()
	for len(pending) > 0 {
		var again []int
		outcomes := r.cfg.Publisher.Publish(bounded, ms)
		if err := r.lost(work, outcomes); err != nil && len(ids) == 0 {
			claim.Abandon()
			r.awaitBrokers(ctx, err)
			return 0, nil
		}
		for i, o := range outcomes {
			n := pending[i]
			switch {
			case o.Class == Delivered:
				ids = append(ids, events[n].ID)
				sent = append(sent, ms[i])
				r.metrics.deadLettered.Inc()
			case o.Class == Permanent && fits[n] < bare:
				// Too large for this topic after all: say less.
				fits[n]++
				again = append(again, n)
			case o.Class != Withheld && worst == nil:
				worst = letterHold(r.cfg.DLQTopic, &events[n], &o)
			}
		}
		pending = again
		ms = encode()
	}
	settling, cancelSettle := context.WithTimeout(work, settleTimeout)
	defer cancelSettle()
	if err := claim.Settle(settling, ids, worst); err != nil {
		r.cfg.Publisher.Remember(sent)
		return 0, fmt.Errorf("settle %d dead letters: %w", len(ids), err)
	}
	if worst != nil {
		r.cfg.Logger.Error("dead letters cannot be sent, the events stay", "topic", worst.Topic,
			"error_code", worst.Code, "error", worst.Error, "waiting", len(events)-len(ids))
	}
	return len(ids), nil
}

func letterHold(topic string, e *outbox.Event, o *Outcome) *HoldChange {
	h := &HoldChange{Scope: ScopeDeadLetter, Topic: topic, Cause: CauseInfrastructure, Code: o.Code, Error: o.Message,
		EventID: e.EventID, ProbeIn: time.Second}
	switch o.Class {
	case Route:
		h.Cause, h.ProbeIn = CauseRoute, 5*time.Second
	case Record, Permanent:
		h.Cause, h.ProbeIn = CauseRecord, 30*time.Second
	}
	return h
}
