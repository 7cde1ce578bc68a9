package relay

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"
)

// Action names one of the actions that can be called by hand.
type Action string

const (
	// ActionProcessPending: see Relay.ProcessPending.
	ActionProcessPending Action = "processPending"
	// ActionProcessRetries: see Relay.ProcessRetries.
	ActionProcessRetries Action = "processRetries"
	// ActionCleanup: see Cleanup.
	ActionCleanup Action = "cleanup"
	// ActionDLQStats counts the open investigations: see outboxsync.
	ActionDLQStats Action = "dlqStats"
)

// ErrNoBrokers is wrapped by an action's error when no broker answers.
var ErrNoBrokers = errors.New("no broker answers; check the broker addresses and the network")

// ActionOptions bounds one call of ProcessPending or ProcessRetries.
type ActionOptions struct {
	// Limit is how many events to work on at most. Defaults to 0, all there are.
	Limit int
}

// ActionResult is what an action did. An action that fails midway returns what it did until then.
type ActionResult struct {
	Action Action `json:"action"`
	// BatchSize is how many events are claimed at once at most.
	BatchSize int `json:"batch_size"`
	// Processed events were claimed and settled.
	Processed int `json:"processed"`
	// Succeeded of them were acknowledged by their topics.
	Succeeded int `json:"succeeded"`
	// Failed of them failed by their own fault: they will be tried again, or are exhausted.
	Failed int `json:"failed"`
	// Exhausted were given up; DeadLettered, these and earlier ones, were acknowledged by the dead-letter
	// topic.
	Exhausted    int `json:"exhausted"`
	DeadLettered int `json:"dead_lettered"`
	// Scheduled wait for their time, Parked for a hold.
	Scheduled int `json:"scheduled"`
	Parked    int `json:"parked"`
	// Returned came back to be tried again.
	Returned int `json:"returned"`
	// Elsewhere says that another relay leads the outbox, which does all this by itself.
	Elsewhere  bool    `json:"elsewhere,omitempty"`
	DurationMS float64 `json:"duration_ms"`
}

// ProcessPending publishes pending events until no event that may go is left or the limit is reached, and sends the dead
// letters that are due. The relay itself need not run. If another relay leads, that relay processes the log, and Elsewhere
// in the result says so.
func (r *Relay) ProcessPending(ctx context.Context, o ActionOptions) (ActionResult, error) {
	return r.act(ctx, ActionProcessPending, o, func(ctx context.Context, a *Relay, t *tally) error {
		return a.leadOnce(ctx, t, true)
	})
}

// ProcessRetries sends events that are due to be tried again: failed and delayed events whose time has come, and a probe
// for each hold that is due. If a probe gets through, the events behind its hold come back and are sent, too. The action
// ends when nothing more comes back or the limit is reached. It probes each hold once, and sends the dead letters that are
// due. If another relay leads, that relay does all this, and Elsewhere in the result says so.
func (r *Relay) ProcessRetries(ctx context.Context, o ActionOptions) (ActionResult, error) {
	return r.act(ctx, ActionProcessRetries, o, func(ctx context.Context, a *Relay, t *tally) error {
		return a.leadOnce(ctx, t, false)
	})
}

// act runs an action on a relay of its own, which shares the connections, the broker and the metrics with r.
func (r *Relay) act(ctx context.Context, action Action, o ActionOptions,
	do func(context.Context, *Relay, *tally) error) (result ActionResult, err error) {
	began := time.Now()
	t := &tally{Store: r.cfg.Store, left: o.Limit, bounded: o.Limit > 0}
	t.result = ActionResult{Action: action, BatchSize: r.cfg.BatchSize}
	ctx, end := r.report().Begin(ctx, action)
	defer func() { end(result, err, result.line()...) }()
	if o.Limit < 0 {
		return t.result, fmt.Errorf("%s: the limit is %d, it must not be negative", action, o.Limit)
	}
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	cfg := r.given
	cfg.Store, cfg.Registerer = t, nil
	// A relay waits for its brokers, an action ends.
	cfg.Publisher = hasty{r.cfg.Publisher, stop}
	a, err := New(cfg)
	if err != nil {
		return t.result, err
	}
	a.metrics = r.metrics
	_ = a.ping(ctx) // a failure is in the cause
	if err = context.Cause(ctx); err == nil {
		err = do(ctx, a, t)
		if err == nil {
			err = a.drainLetters(ctx, t)
		}
		if cause := context.Cause(ctx); cause != nil {
			err = cause // and not what came of it
		}
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.result.DurationMS = milliseconds(began)
	if err != nil {
		return t.result, fmt.Errorf("%s: %w", action, err)
	}
	return t.result, nil
}

// leadOnce leads until there is nothing more to do: with all of the log, or only with the events that wait beside it.
func (r *Relay) leadOnce(ctx context.Context, t *tally, log bool) error {
	l, err := r.cfg.Store.Lead(ctx, r.cfg.Worker)
	if err != nil {
		return fmt.Errorf("try to lead: %w", err)
	}
	if l == nil {
		t.mu.Lock()
		t.result.Elsewhere = true
		t.mu.Unlock()
		return nil
	}
	term := newTerm(r, l)
	term.once = &onceOnly{tally: t, log: log, probed: map[int64]bool{}}
	return term.run(ctx)
}

// onceOnly makes a term end when there is nothing more to do.
type onceOnly struct {
	*tally
	log    bool           // it reads the log
	probed map[int64]bool // holds
	read   atomic.Bool    // nothing more comes from the log
}

// barrenLetters is how many claims of letters in a row may deliver none before an action leaves the rest to the
// next one.
const barrenLetters = 10

// drainLetters sends letters until none is due. A claim that delivers none is not the end: the claim put its topic under a
// hold or postponed its letters, and the letters of other topics come next.
func (r *Relay) drainLetters(ctx context.Context, t *tally) error {
	for barren := 0; barren < barrenLetters && ctx.Err() == nil; barren++ {
		before := t.letterClaims.Load()
		sent, err := r.sendLetters(ctx)
		if err != nil || t.letterClaims.Load() == before {
			return err
		}
		if sent > 0 {
			barren = -1
		}
	}
	return nil
}

// hasty is a publisher that ends its action when no broker answers.
type hasty struct {
	Publisher
	stop context.CancelCauseFunc
}

func (p hasty) Ping(ctx context.Context) error {
	err := p.Publisher.Ping(ctx)
	if err != nil {
		p.stop(fmt.Errorf("%w: %w", ErrNoBrokers, err))
	}
	return err
}

// tally counts settled events, and takes no more events than the limit still allows.
type tally struct {
	Store
	letterClaims atomic.Int64 // that were not empty

	bounded bool
	taking  sync.Mutex // while events are taken off left
	left    int

	mu     sync.Mutex
	result ActionResult
}

// within calls f with up to n of the events that the limit still allows, unless none is left, and takes off what f has
// used. Calls with a limit run one at a time: what one call does not use is there for the next. A nil action has no limit.
func (o *onceOnly) within(n int, f func(n int) (used int, err error)) error {
	if o == nil || !o.bounded {
		_, err := f(n)
		return err
	}
	o.taking.Lock()
	defer o.taking.Unlock()
	if n = min(n, o.left); n == 0 {
		return nil
	}
	used, err := f(n)
	o.left -= used
	return err
}

// count notes a receipt that was written, and how many exceptions came back for it.
func (t *tally) count(r *Receipt, returned int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	c := r.Counts()
	t.result.Processed += c.Processed
	t.result.Succeeded += r.Sent
	t.result.Returned += returned
	t.result.Failed += c.Failed
	t.result.Exhausted += c.Exhausted
	t.result.Scheduled += c.Scheduled
	t.result.Parked += c.Parked
}

// ClaimLetters implements Store.
func (t *tally) ClaimLetters(ctx context.Context, letterTopic func(string) string, limit int) (LetterClaim, error) {
	c, err := t.Store.ClaimLetters(ctx, letterTopic, limit)
	if c == nil || err != nil {
		return nil, err
	}
	t.letterClaims.Add(1)
	return talliedLetters{c, t}, nil
}

type talliedLetters struct {
	LetterClaim
	tally *tally
}

func (c talliedLetters) Settle(ctx context.Context, s *LetterSettlement) error {
	if err := c.LetterClaim.Settle(ctx, s); err != nil {
		return err
	}
	c.tally.mu.Lock()
	defer c.tally.mu.Unlock()
	c.tally.result.DeadLettered += len(s.Delivered)
	return nil
}

func milliseconds(since time.Time) float64 { return float64(time.Since(since).Microseconds()) / 1000 }
