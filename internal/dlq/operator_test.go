package dlq_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/postrider/postrider/internal/dlq"
)

// engine is what an operator works with: Step says what step says.
type engine struct {
	step    func(ctx context.Context, n int) (int, time.Duration, error)
	follow  func(ctx context.Context) (dlq.Followed, error)
	steps   int
	follows []time.Time
	resolve []bool
}

func (e *engine) Step(ctx context.Context) (int, time.Duration, error) {
	e.steps++
	return e.step(ctx, e.steps)
}

func (e *engine) Follow(ctx context.Context, _ int, resolve bool) (dlq.Followed, error) {
	e.follows, e.resolve = append(e.follows, time.Now()), append(e.resolve, resolve)
	if e.follow != nil {
		return e.follow(ctx)
	}
	return dlq.Followed{}, nil
}

// operate runs an operator for so long, and returns what it logged.
func operate(t *testing.T, e *engine, d time.Duration) string {
	t.Helper()
	var log bytes.Buffer
	o, err := dlq.NewOperator(dlq.OperatorConfig{Operations: e, ResolveDelivered: true, Logger: slog.New(slog.NewTextHandler(&log, nil))})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), d)
	defer cancel()
	start := time.Now()
	if err := o.Run(ctx); err != nil {
		t.Error(err)
	}
	if took := time.Since(start); took != d {
		t.Errorf("it worked for %v of %v", took, d)
	}
	return log.String()
}

func idle(context.Context, int) (int, time.Duration, error) { return 0, -1, nil }

func TestAnIdleOperatorLooksOnceAnInterval(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		e := &engine{step: idle}
		operate(t, e, 10*time.Second+time.Millisecond)
		if len(e.follows) != 11 || e.steps != 11 {
			t.Errorf("%d looks and %d steps in 10 s", len(e.follows), e.steps)
		}
		for _, resolve := range e.resolve {
			if !resolve {
				t.Error("the rule is not handed on")
			}
		}
	})
}

// TestARateIsKept: batches of a tenth of a second, beside following that takes its time.
func TestARateIsKept(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		due, treated := start, 0
		e := &engine{}
		e.step = func(context.Context, int) (int, time.Duration, error) {
			if wait := time.Until(due); wait > 0 {
				return 0, wait, nil
			}
			due = due.Add(100 * time.Millisecond)
			treated += 50
			return 50, 0, nil
		}
		e.follow = func(context.Context) (dlq.Followed, error) {
			time.Sleep(300 * time.Millisecond)
			return dlq.Followed{Delivered: 1}, nil
		}
		log := operate(t, e, 20*time.Second)
		if treated < 9500 || treated > 10_050 {
			t.Errorf("%d in 20 s at 500 a second", treated)
		}
		if !strings.Contains(log, "delivered=1") {
			t.Errorf("what ended is not logged: %s", log)
		}
	})
}

// TestFollowingHasItsTurn while there is always more to do.
func TestFollowingHasItsTurn(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		e := &engine{step: func(ctx context.Context, _ int) (int, time.Duration, error) {
			select {
			case <-time.After(30 * time.Millisecond):
				return 1000, 0, nil
			case <-ctx.Done():
				return 0, 0, ctx.Err()
			}
		}}
		operate(t, e, 10*time.Second)
		if len(e.follows) < 9 || e.steps < 300 {
			t.Errorf("%d looks and %d batches in 10 s", len(e.follows), e.steps)
		}
	})
}

// TestFollowingKeepsNobodyWaiting: looking at very many redrives takes longer than the arrears that a rate makes up for.
func TestFollowingKeepsNobodyWaiting(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		next, treated := time.Now(), 0
		e := &engine{}
		e.step = func(context.Context, int) (int, time.Duration, error) {
			if wait := time.Until(next); wait > 0 {
				return 0, wait, nil
			}
			if late := time.Since(next); late > time.Second {
				t.Errorf("a batch is late by %v", late)
			}
			next = next.Add(100 * time.Millisecond)
			treated += 100
			return 100, 0, nil
		}
		e.follow = func(ctx context.Context) (dlq.Followed, error) {
			select {
			case <-time.After(7 * time.Second):
			case <-ctx.Done():
			}
			return dlq.Followed{}, ctx.Err()
		}
		operate(t, e, 30*time.Second+time.Millisecond)
		if treated != 30_100 || len(e.follows) != 4 {
			t.Errorf("%d in 30 s at 1000 a second, beside %d looks", treated, len(e.follows))
		}
	})
}

// TestFollowingGoesOnAtOnce where a call had no time for all that had ended.
func TestFollowingGoesOnAtOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		e := &engine{step: idle}
		e.follow = func(context.Context) (dlq.Followed, error) {
			time.Sleep(500 * time.Millisecond)
			return dlq.Followed{Delivered: 5000, More: len(e.follows) < 10}, nil
		}
		operate(t, e, 8500*time.Millisecond)
		if len(e.follows) != 12 { // ten in five seconds, and then one each 1.5
			t.Errorf("%d looks", len(e.follows))
		}
	})
	synctest.Test(t, func(t *testing.T) { // but not after one that failed
		e := &engine{step: idle, follow: func(context.Context) (dlq.Followed, error) {
			return dlq.Followed{More: true}, errors.New("the database is away")
		}}
		operate(t, e, 10*time.Second+time.Millisecond)
		if len(e.follows) != 11 {
			t.Errorf("%d looks in 10 s", len(e.follows))
		}
	})
}

func TestAnOperatorGoesOnAfterErrors(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		down := errors.New("the database is away")
		e := &engine{}
		e.step = func(ctx context.Context, n int) (int, time.Duration, error) {
			if n <= 5 {
				return 0, 0, down
			}
			return idle(ctx, n)
		}
		e.follow = func(context.Context) (dlq.Followed, error) { return dlq.Followed{}, down }
		log := operate(t, e, 10*time.Second+time.Millisecond)
		if e.steps != 11 {
			t.Errorf("%d steps in 10 s", e.steps)
		}
		if n := strings.Count(log, "an operation failed for now"); n != 5 {
			t.Errorf("%d of 5 failures are logged:\n%s", n, log)
		}
		if n := strings.Count(log, "following redrives failed"); n != 11 {
			t.Errorf("%d of 11 failures to follow are logged", n)
		}
	})
}

// TestAnOperatorStopsAtOnce with a batch in hand, which the database takes back, and says nothing of it.
func TestAnOperatorStopsAtOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		e := &engine{}
		e.step = func(ctx context.Context, _ int) (int, time.Duration, error) {
			<-ctx.Done()
			return 0, 0, context.Canceled
		}
		if log := operate(t, e, 3*time.Second); log != "" {
			t.Errorf("%s", log)
		}
		if e.steps != 1 {
			t.Errorf("%d steps", e.steps)
		}
	})
	synctest.Test(t, func(t *testing.T) { // and while it waits for the next batch
		e := &engine{step: func(context.Context, int) (int, time.Duration, error) { return 0, 700 * time.Millisecond, nil }}
		operate(t, e, 350*time.Millisecond)
	})
}

func TestNewOperatorRefuses(t *testing.T) {
	t.Parallel()
	e := &engine{}
	for name, c := range map[string]dlq.OperatorConfig{
		"nothing":  {},
		"negative": {Operations: e, Interval: -1},
	} {
		if _, err := dlq.NewOperator(c); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}
