package relay

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"

	"github.com/postrider/postrider/internal/loop"
)

// send sends one batch after the other, until there are no more. If reading ends while no broker answers, the events that
// were read are left to the next term.
func (t *term) send(ctx, reading context.Context) error {
	if t.once != nil {
		defer t.once.read.Store(true)
	}
	for b := range t.batches {
		// An action also looks at the events that it parks behind holds, so each batch is written first. And a relay that
		// dies over the next batch then died over that batch alone.
		alone := t.once != nil || t.careful.Load() > 0
		s, err := t.sendBatch(ctx, reading, b)
		if err == nil && alone {
			err = s.written(ctx)
		}
		switch {
		case errors.Is(err, errHandOver) || ctx.Err() != nil:
			return nil
		case err != nil:
			return err
		}
	}
	return nil
}

// sendBatch sends a batch and decides about each of its events. It returns what the settler is to write.
func (t *term) sendBatch(ctx, reading context.Context, b *logBatch) (s *settlement, err error) {
	pass := t.tracing.pass(ctx, actionPublish, "batch", b.began, b.readBefore, len(b.Events))
	defer func() {
		if err != nil {
			pass.close(err)
		}
	}()
	ctx = pass.in(ctx)
	for {
		if err := t.awaitSure(ctx); err != nil {
			return nil, err
		}
		p := t.plan(planInput{ctx: ctx, events: b.Events, skips: b.Skips, now: b.Now})
		if err := t.tryAlone(ctx, reading, p); err != nil {
			return nil, err
		}
		outcomes := t.publish(ctx, p, t.cfg.PublishTimeout, pass)
		if ctx.Err() != nil { // the term is over
			t.cfg.Publisher.Remember(delivered(p.messages, outcomes))
			return nil, context.Cause(ctx)
		}
		t.metrics.count(outcomes) // outages count with each try
		lost := t.lost(ctx, outcomes)
		s, err := t.decide(ctx, p, outcomes, pass, func() (*Receipt, error) {
			if lost != nil {
				p.undo()
				return nil, nil
			}
			receipt, err := p.conclude(outcomes)
			if err == nil {
				b.fill(receipt)
			}
			return receipt, err
		})
		if err != nil {
			return nil, err
		}
		if lost == nil {
			if len(b.Events) > 0 {
				t.metrics.batch.Observe(float64(len(b.Events)))
			}
			return s, nil
		}
		if t.awaitBrokers(reading, lost); reading.Err() != nil {
			return nil, errHandOver
		}
	}
}

// fill says in a receipt what was read.
func (b *logBatch) fill(receipt *Receipt) {
	receipt.Position, receipt.Forgotten, receipt.Gaps = b.position, b.forgotten, b.gaps
	ids := make([]int64, len(b.Events))
	for i := range b.Events {
		e := &b.Events[i]
		if ids[i] = e.ID; e.TaskUUID != uuid.Nil {
			receipt.Tasks = append(receipt.Tasks, TaskEvent{e.ID, e.TaskUUID})
		}
	}
	receipt.Events = RangesOf(ids)
}

// plan decides what to send of a batch.
func (t *term) plan(in planInput) *plan {
	t.book.mu.Lock()
	defer t.book.mu.Unlock()
	r := t.rules
	r.holdID = func() (int64, error) { return t.holdIDs.take(in.ctx) }
	return newPlan(in, t.book, r)
}

// publish sends the messages of a plan and waits for what becomes of them.
func (t *term) publish(ctx context.Context, p *plan, within time.Duration, pass *pass) []Outcome {
	if len(p.messages) == 0 {
		return nil
	}
	t.metrics.inFlight.Add(float64(len(p.messages)))
	defer t.metrics.inFlight.Sub(float64(len(p.messages)))
	bounded, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	sending := pass.publish(p.messages)
	began := time.Now()
	outcomes := t.cfg.Publisher.Publish(bounded, p.messages)
	sending.end(outcomes)
	t.metrics.published(time.Since(began), p.messages)
	return outcomes
}

// awaitSure waits until the session that leads is known to live.
func (t *term) awaitSure(ctx context.Context) error {
	for !t.leader.Sure() {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		_ = loop.Sleep(ctx, 5*time.Millisecond)
	}
	return nil
}

// tryAlone writes down that an event is tried alone, where relays died while events were in flight. So the event that kills
// is found and given up, and no other event is charged. A broker must answer first, or an outage would charge the first
// event.
func (t *term) tryAlone(ctx, reading context.Context, p *plan) error {
	if t.careful.Load() != 1 || len(p.events) != 1 || len(p.messages) != 1 {
		return nil
	}
	e := &p.events[0]
	tried := 0
	if t.began.Trying == e.ID {
		tried = t.began.Tried
	}
	if tried > 0 && t.settings(e.Topic).Retry.Exhausted(tried, e.MaxAttempts) {
		p.messages, p.eventOf = nil, nil
		p.fates = []fate{{kind: fateUnsendable, why: &Outcome{Class: Permanent, Code: CodeWorkerKilled,
			Message: fmt.Sprintf("the relay died each of the %d times this event was in flight", tried)}}}
		return nil
	}
	for {
		err := t.ping(ctx)
		if err == nil {
			break
		}
		if t.awaitBrokers(reading, err); reading.Err() != nil {
			return errHandOver
		}
	}
	t.cfg.Logger.Warn("relays died over this event or its neighbours, trying it alone", "id", e.ID, "topic", e.Topic,
		"deaths", t.began.Deaths, "attempt", tried+1)
	return t.write(ctx, func() *Receipt { return &Receipt{Trying: e.ID} })
}

// logDecided logs the events that a batch gave up, and the holds that it put in place or renewed.
func (t *term) logDecided(p *plan) {
	log := t.cfg.Logger
	if len(p.givenUp) > 0 {
		t.letters.busy(1)
	}
	traces := p.givenUpTraces()
	for i := range p.givenUp {
		x := &p.givenUp[i]
		log := log
		if id := traces[x.ID]; id != "" {
			log = log.With("trace_id", id)
		}
		log.Warn("event given up", "id", x.ID, "attempts", x.Attempts, "error_code", x.Failure.Code, "err", x.Failure.Error)
	}
	for i := range p.receipt.Holds {
		h := &p.receipt.Holds[i]
		if h.Draining {
			continue
		}
		next := h.ProbeIn.String()
		if h.ProbeIn == Forever {
			next = "never: it waits for an operator"
		}
		log.Warn("held", "scope", string(h.Scope), "topic", h.Topic, "cause", string(h.Cause),
			"error_code", h.Code, "err", h.Error, "probes", h.Probes, "next_probe_in", next)
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
