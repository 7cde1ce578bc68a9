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
	// ActionDLQStats counts the open investigations: see relay/outboxsync.
	ActionDLQStats Action = "dlqStats"
)

// Actions returns every action.
func Actions() []Action {
	return []Action{ActionProcessPending, ActionProcessRetries, ActionCleanup, ActionDLQStats}
}

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
	Returned   int     `json:"returned"`
	DurationMS float64 `json:"duration_ms"`
}

// ProcessPending publishes what is pending, with the relay's workers, until nothing is left that is free or
// the limit is reached, and sends the dead letters that are due. It may run beside relays that run: what
// these have claimed it leaves to them. The relay itself need not run.
func (r *Relay) ProcessPending(ctx context.Context, o ActionOptions) (ActionResult, error) {
	return r.act(ctx, ActionProcessPending, o, func(ctx context.Context, a *Relay, _ *tally) error {
		return a.drain(ctx)
	})
}

// ProcessRetries brings back what is due to be tried again, which are failed and delayed events whose time
// has come and a probe for each hold that is due, and publishes it, until nothing comes back, or nothing
// that came back got any further, or the limit is reached. Pending events of the same shards go with it,
// because their order is kept; with nothing to bring back it publishes nothing. It sends the dead letters
// that are due.
func (r *Relay) ProcessRetries(ctx context.Context, o ActionOptions) (ActionResult, error) {
	return r.act(ctx, ActionProcessRetries, o, func(ctx context.Context, a *Relay, t *tally) error {
		for ctx.Err() == nil && t.open() {
			before := t.progress()
			n, err := a.returnHeld(ctx)
			if err != nil || n == 0 {
				return err
			}
			if err := a.drain(ctx); err != nil {
				return err
			}
			if t.progress() == before {
				// A topic that is still away would be probed for ever.
				return nil
			}
		}
		return nil
	})
}

// act runs an action on a relay of its own, which shares the connections, the broker and the metrics with r.
func (r *Relay) act(ctx context.Context, action Action, o ActionOptions, do func(context.Context, *Relay, *tally) error) (result ActionResult, err error) {
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

// drain runs every worker until it finds nothing.
func (r *Relay) drain(ctx context.Context) error {
	errs := make([]error, r.cfg.Workers)
	var wg sync.WaitGroup
	for n := range r.cfg.Workers {
		w := &worker{relay: r, id: fmt.Sprintf("%s/%d", r.cfg.Worker, n)}
		wg.Go(func() {
			for ctx.Err() == nil {
				if found, err := w.runOnce(ctx); err != nil || found == 0 {
					errs[n] = err
					return
				}
			}
		})
	}
	wg.Wait()
	return errors.Join(errs...)
}

// barrenLetters is how many claims of letters in a row may deliver none before an action leaves the rest to the
// next one.
const barrenLetters = 10

// drainLetters sends letters until none is due. A claim that delivers none is not the end: it has put its topic
// under a hold, or put its letters off, and those of other topics come next.
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

// tally is a store that counts what is settled, and claims no more than what is left of a limit.
type tally struct {
	Store
	letterClaims atomic.Int64 // that were not empty

	mu      sync.Mutex
	result  ActionResult
	ended   int // holds
	bounded bool
	left    int
}

// reserve takes up to n of what is left.
func (t *tally) reserve(n int) int {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.bounded {
		return n
	}
	n = min(n, t.left)
	t.left -= n
	return n
}

// restore gives back what was reserved and not used.
func (t *tally) restore(n int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.left += n
}

// open reports whether anything is left of the limit.
func (t *tally) open() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return !t.bounded || t.left > 0
}

// progress grows whenever something gets further that was due.
func (t *tally) progress() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.result.Succeeded + t.result.Exhausted + t.ended
}

// Claim implements Store.
func (t *tally) Claim(ctx context.Context, l Limits) (Claim, error) {
	l.Events = t.reserve(l.Events)
	if l.Events == 0 {
		return nil, nil
	}
	l.Shards = min(l.Shards, l.Events) // each shard gives one event at least
	c, err := t.Store.Claim(ctx, l)
	if err != nil || c == nil {
		t.restore(l.Events)
		return nil, err
	}
	t.restore(l.Events - len(c.Batch().Events))
	return tallied{c, t}, nil
}

// Return implements Store.
func (t *tally) Return(ctx context.Context, limit int, grace time.Duration) (Returned, error) {
	got, err := t.Store.Return(ctx, limit, grace)
	t.mu.Lock()
	defer t.mu.Unlock()
	t.result.Returned += got.Events
	t.ended += got.Holds
	return got, err
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

type tallied struct {
	Claim
	tally *tally
}

func (c tallied) Settle(ctx context.Context, s *Settlement) error {
	if err := c.Claim.Settle(ctx, s); err != nil {
		return err
	}
	t := c.tally
	t.mu.Lock()
	defer t.mu.Unlock()
	t.result.Processed += len(c.Batch().Events)
	t.result.Succeeded += len(s.Delivered)
	t.result.Failed += s.Failed()
	t.result.Exhausted += len(s.Exhausted)
	t.result.Scheduled += len(s.Scheduled)
	t.result.Parked += len(s.Parked)
	return nil
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
