package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"
)

// stopLimit bounds a whole stop; orchestrators kill after 30 seconds.
const stopLimit = 28 * time.Second

// lifecycle keeps what has to be stopped, and stops it once, the last first.
type lifecycle struct {
	log *slog.Logger

	mu       sync.Mutex
	steps    []step
	stopping chan struct{} // closed when the stop begins
	stopped  chan struct{} // closed when it has ended
	begun    bool
	err      error
}

// step is one thing to stop.
type step struct {
	name string
	// limit is how long it may take: since it was asked, or since its turn if it is not asked.
	limit time.Duration
	// ask, where not nil, asks it to end without waiting. All are asked before any is waited for,
	// so that they end side by side.
	ask  func()
	stop func(context.Context) error
}

func newLifecycle(log *slog.Logger) *lifecycle {
	return &lifecycle{log: log, stopping: make(chan struct{}), stopped: make(chan struct{})}
}

// add puts a step on top. It reports false, and keeps nothing, once the stop has begun.
func (l *lifecycle) add(s step) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.begun {
		return false
	}
	l.steps = append(l.steps, s)
	return true
}

// stop stops every step within stopLimit and the end of ctx. A step that fails or takes too long
// does not keep the others from being stopped. Further calls wait for the first and return the same.
func (l *lifecycle) stop(ctx context.Context) error {
	l.mu.Lock()
	first := !l.begun
	l.begun = true
	steps := l.steps
	l.mu.Unlock()
	if !first {
		<-l.stopped
		return l.err
	}
	close(l.stopping)
	defer close(l.stopped)
	ctx, cancel := context.WithTimeout(ctx, stopLimit)
	defer cancel()
	asked := time.Now()
	for _, s := range steps {
		if s.ask != nil {
			s.ask()
		}
	}
	var errs []error
	for i := len(steps) - 1; i >= 0; i-- {
		began := time.Now()
		since := began
		if steps[i].ask != nil {
			since = asked
		}
		err := steps[i].run(ctx, since.Add(steps[i].limit))
		if err != nil {
			errs = append(errs, err)
		}
		l.log.Debug("stopped", "step", steps[i].name, "took", time.Since(began).String(), "err", err)
	}
	l.err = errors.Join(errs...)
	return l.err
}

// run returns when the step has ended or its time is up; then it is left behind.
func (s step) run(ctx context.Context, until time.Time) error {
	ctx, cancel := context.WithDeadline(ctx, until)
	defer cancel()
	ended := make(chan error, 1)
	go func() { ended <- s.stop(ctx) }()
	select {
	case err := <-ended:
		if err != nil {
			return fmt.Errorf("stop the %s: %w", s.name, err)
		}
		return nil
	case <-ctx.Done():
	}
	select {
	case err := <-ended: // it kept to the limit too
		if err != nil {
			return fmt.Errorf("stop the %s: %w", s.name, err)
		}
		return nil
	case <-time.After(100 * time.Millisecond):
		return fmt.Errorf("stop the %s: it did not end within %v", s.name, s.limit)
	}
}
