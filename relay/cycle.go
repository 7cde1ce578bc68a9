package relay

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/postrider/postrider/relay/outbox"
)

// carefulAfter is how many deaths of its worker make a batch be tried one event at a time.
const carefulAfter = 3

// settleTimeout bounds each write of a cycle, also after the relay was told to stop.
const settleTimeout = 10 * time.Second

// worker runs publish cycles, one at a time.
type worker struct {
	relay *Relay
	id    string
}

// runOnce claims one batch, publishes and settles it. It returns the number of events claimed.
func (w *worker) runOnce(ctx context.Context) (int, error) {
	r := w.relay
	claim, err := r.cfg.Store.Claim(ctx, Limits{
		Worker: w.id, First: rand.IntN(outbox.Shards), Events: r.cfg.BatchSize,
		// A share, so that the other workers find free shards too.
		Shards: max(1, outbox.Shards/r.cfg.Workers),
	})
	if err != nil {
		return 0, fmt.Errorf("claim: %w", err)
	}
	if claim == nil {
		return 0, nil
	}
	batch := claim.Batch()
	if len(batch.Events) == 0 {
		claim.Abandon()
		return 0, nil
	}
	r.metrics.batch.Observe(float64(len(batch.Events)))

	// From here on the batch is finished even when the relay is told to stop: what was handed to the
	// broker must be settled.
	work := context.WithoutCancel(ctx)
	p := newPlan(batch, r.cfg.Retry, r.cfg.Publisher.Check)
	if len(p.messages) > 0 {
		marking, cancel := context.WithTimeout(work, settleTimeout)
		err := claim.Mark(marking)
		cancel()
		if err != nil {
			claim.Abandon()
			return 0, fmt.Errorf("mark the batch: %w", err)
		}
	}
	r.metrics.inFlight.Add(float64(len(p.messages)))
	defer r.metrics.inFlight.Sub(float64(len(p.messages)))
	outcomes, err := w.publish(work, claim, p)
	if err != nil {
		r.cfg.Publisher.Remember(delivered(p.messages, outcomes))
		claim.Abandon()
		return 0, err
	}
	for i := range outcomes {
		p.settle(i, &outcomes[i])
	}
	r.metrics.count(outcomes)
	settling, cancel := context.WithTimeout(work, settleTimeout)
	defer cancel()
	if err := claim.Settle(settling, p.settlement()); err != nil {
		// Unknown outcome: the rows are settled, or they are claimed again and need not be sent again.
		r.cfg.Publisher.Remember(delivered(p.messages, outcomes))
		return 0, fmt.Errorf("settle %d events: %w", len(batch.Events), err)
	}
	w.log(p)
	return len(batch.Events), nil
}

func (w *worker) publish(ctx context.Context, claim Claim, p *plan) ([]Outcome, error) {
	if len(p.messages) == 0 {
		return nil, nil
	}
	if claim.Batch().Crashes >= carefulAfter {
		return w.publishCarefully(ctx, claim, p)
	}
	bounded, cancel := context.WithTimeout(ctx, w.relay.cfg.PublishTimeout)
	defer cancel()
	start := time.Now()
	outcomes := w.relay.cfg.Publisher.Publish(bounded, p.messages)
	w.relay.metrics.publishSeconds.Observe(time.Since(start).Seconds())
	return outcomes, nil
}

// publishCarefully sends the events that were in flight when workers died one at a time, each counted
// before it is tried, so that the one that kills is found and given up. The others wait one batch.
func (w *worker) publishCarefully(ctx context.Context, claim Claim, p *plan) ([]Outcome, error) {
	b := claim.Batch()
	w.relay.cfg.Logger.Warn("workers died over these events, trying one at a time",
		"deaths", b.Crashes, "first_id", b.SuspectFirst, "last_id", b.SuspectLast)
	bounded, cancel := context.WithTimeout(ctx, w.relay.cfg.PublishTimeout)
	defer cancel()
	outcomes := make([]Outcome, len(p.messages))
	stopped := map[subject]bool{}
	for i := range p.messages {
		e := &b.Events[p.events[i]]
		s := subject{e.Topic, string(e.Key)}
		outcomes[i] = Outcome{Class: Withheld}
		suspect := e.ID >= b.SuspectFirst && e.ID <= b.SuspectLast
		if !suspect || bounded.Err() != nil || e.HasKey() && stopped[s] {
			stopped[s] = stopped[s] || e.HasKey()
			continue
		}
		attempts, err := claim.CountAttempt(bounded, e.ID)
		if err != nil {
			return outcomes, fmt.Errorf("count an attempt of event %s: %w", e.EventID, err)
		}
		// Settling counts this attempt itself; what is written must be the number just counted.
		e.Attempts = attempts - 1
		if attempts > 1 && w.relay.cfg.Retry.Exhausted(attempts-1, e.MaxAttempts) {
			outcomes[i] = Outcome{Class: Permanent, Code: CodeWorkerKilled,
				Message: fmt.Sprintf("the relay died each of the %d times this event was in flight", attempts-1)}
			continue
		}
		outcomes[i] = w.relay.cfg.Publisher.Publish(bounded, p.messages[i:i+1])[0]
		stopped[s] = stopped[s] || e.HasKey() && outcomes[i].Class != Delivered && outcomes[i].Class != Permanent
	}
	return outcomes, nil
}

func (w *worker) log(p *plan) {
	log := w.relay.cfg.Logger
	for i := range p.out.Exhausted {
		f := &p.out.Exhausted[i]
		log.Warn("event given up", "id", f.ID, "attempts", f.Attempts, "error_code", f.Code, "error", f.Error)
	}
	for i := range p.out.Holds {
		h := &p.out.Holds[i]
		log.Warn("held", "scope", string(h.Scope), "topic", h.Topic, "cause", string(h.Cause),
			"error_code", h.Code, "error", h.Error, "probes", h.Probes, "next_probe_in", h.ProbeIn.String())
	}
}

// delivered picks the messages that the broker acknowledged.
func delivered(ms []Message, outcomes []Outcome) []Message {
	var out []Message
	for i := range outcomes {
		if outcomes[i].Class == Delivered {
			out = append(out, ms[i])
		}
	}
	return out
}
