package relay

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/postrider/postrider/relay/outbox"
)

// batchBytes bounds the keys and payloads of one batch, and with it the memory of a worker.
const batchBytes = 64 << 20

// settleTimeout bounds each write of a cycle, also after the relay was told to stop.
const settleTimeout = 10 * time.Second

// worker runs publish cycles, one at a time.
type worker struct {
	relay *Relay
	id    string
}

// runOnce claims one batch, publishes and settles it. It returns how many events it
// moved on; those that stay where they are give no reason to look again at once.
func (w *worker) runOnce(ctx context.Context) (moved int, err error) {
	r := w.relay
	if r.brokers.away() {
		return 0, &brokersLost{}
	}
	began := time.Now()
	claim, err := r.cfg.Store.Claim(ctx, Limits{
		Worker: w.id, First: rand.IntN(outbox.Shards), Events: r.cfg.BatchSize, Bytes: batchBytes,
		CommitOrder: r.cfg.CommitOrder || r.ordered.Load(),
		// A share, so that the other workers find free shards too.
		Shards: max(1, outbox.Shards/r.cfg.Workers),
	})
	if err != nil {
		return 0, fmt.Errorf("claim: %w", err)
	}
	if claim == nil {
		return 0, nil
	}
	claimed := time.Now()
	batch := claim.Batch()
	if len(batch.Events) == 0 {
		claim.Abandon()
		return 0, nil
	}
	r.metrics.batch.Observe(float64(len(batch.Events)))
	if err := r.inWork.await(ctx, batch); err != nil {
		claim.Abandon()
		return 0, fmt.Errorf("wait for the worker that lost these shards: %w", err)
	}
	defer r.inWork.begin(batch)()

	// From here on the batch is finished even when the relay is told to stop: what was handed to the
	// broker must be settled.
	work := context.WithoutCancel(ctx)
	p := newPlan(batch, r.rules)
	if p.done() == 0 {
		claim.Abandon()
		return 0, nil
	}
	pass := r.tracing.pass(work, actionPublish, "batch", began, claimed, len(batch.Events))
	defer func() { pass.close(err) }()
	work = pass.in(work)
	unsent := len(p.out.Exhausted)
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
	outcomes, err := w.publish(work, claim, p, pass)
	if err != nil {
		r.cfg.Publisher.Remember(delivered(p.messages, outcomes))
		claim.Abandon()
		return 0, err
	}
	if err := r.lost(work, outcomes); err != nil {
		claim.Abandon()
		return 0, &brokersLost{err}
	}
	for i := range outcomes {
		p.settle(i, &outcomes[i])
	}
	r.metrics.count(outcomes)
	settling, cancel := context.WithTimeout(work, settleTimeout)
	defer cancel()
	s := p.settlement()
	r.crowds.recall(s.Crowds)
	err = claim.Settle(pass.settle(settling), s)
	pass.settled(len(batch.Events), len(p.out.Delivered), p.out.Failed(), 0, err)
	if err != nil {
		// Unknown outcome: the rows are settled, or they are claimed again and need not be sent again.
		r.cfg.Publisher.Remember(delivered(p.messages, outcomes))
		return 0, fmt.Errorf("settle %d events: %w", len(batch.Events), err)
	}
	r.metrics.unsent(p.out.Exhausted[:unsent])
	r.metrics.settled(actionPublish, len(batch.Events))
	r.crowds.note(p.out.Crowds)
	r.follow(&p.out)
	w.log(p)
	return p.moved(), nil
}

func (w *worker) publish(ctx context.Context, claim Claim, p *plan, pass *pass) ([]Outcome, error) {
	if len(p.messages) == 0 {
		return nil, nil
	}
	if i := p.suspect(); i >= 0 {
		return w.publishCarefully(ctx, claim, p, i, pass)
	}
	bounded, cancel := context.WithTimeout(ctx, w.relay.cfg.PublishTimeout)
	defer cancel()
	sending := pass.publish(p.messages)
	start := time.Now()
	outcomes := w.relay.cfg.Publisher.Publish(bounded, p.messages)
	sending.end(outcomes)
	w.relay.metrics.published(time.Since(start), p.messages)
	return outcomes, nil
}

// publishCarefully tries one event that was in flight when workers died, alone and counted before it is
// tried, so that the one that kills is found and given up, and no other is charged. The others wait; the
// batch's marker stays until all that were in flight have been tried like this.
func (w *worker) publishCarefully(ctx context.Context, claim Claim, p *plan, i int, pass *pass) ([]Outcome, error) {
	e := &p.batch.Events[p.events[i]]
	outcomes := make([]Outcome, len(p.messages))
	for n := range outcomes {
		outcomes[n] = Outcome{Class: Withheld}
	}
	p.out.TriedThrough = e.ID
	bounded, cancel := context.WithTimeout(ctx, w.relay.cfg.PublishTimeout)
	defer cancel()
	attempts, err := claim.CountAttempt(bounded, e.ID)
	if err != nil {
		return outcomes, fmt.Errorf("count an attempt of event %s: %w", e.EventID, err)
	}
	w.relay.cfg.Logger.Warn("workers died over this event or its neighbours, trying it alone",
		"id", e.ID, "topic", e.Topic, "deaths", p.batch.Crashes, "attempt", attempts)
	// Settling counts this attempt itself; what is written must be the number just counted.
	e.Attempts = attempts - 1
	if attempts > 1 && w.relay.settings(e.Topic).Retry.Exhausted(attempts-1, e.MaxAttempts) {
		outcomes[i] = Outcome{Class: Permanent, Code: CodeWorkerKilled,
			Message: fmt.Sprintf("the relay died each of the %d times this event was in flight", attempts-1)}
		return outcomes, nil
	}
	sending := pass.publish(p.messages[i : i+1])
	start := time.Now()
	outcomes[i] = w.relay.cfg.Publisher.Publish(bounded, p.messages[i:i+1])[0]
	sending.end(outcomes[i : i+1])
	w.relay.metrics.published(time.Since(start), p.messages[i:i+1])
	if c := outcomes[i].Class; c != Record && c != Permanent {
		// It was counted in case it killed. It did not, and did not fail by its own fault either: kept, the
		// counts of an outage would add up to a death sentence.
		p.out.Uncounted = e.ID
	}
	return outcomes, nil
}

func (w *worker) log(p *plan) {
	log := w.relay.cfg.Logger
	var traces map[int64]string
	if len(p.out.Exhausted) > 0 {
		traces = p.traces()
	}
	for i := range p.out.Exhausted {
		f := &p.out.Exhausted[i]
		log := log
		if id := traces[f.ID]; id != "" {
			log = log.With("trace_id", id)
		}
		log.Warn("event given up", "id", f.ID, "attempts", f.Attempts, "error_code", f.Code, "err", f.Error)
	}
	for i := range p.out.Holds {
		h := &p.out.Holds[i]
		log.Warn("held", "scope", string(h.Scope), "topic", h.Topic, "cause", string(h.Cause),
			"error_code", h.Code, "err", h.Error, "probes", h.Probes, "next_probe_in", h.ProbeIn.String())
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
