package loop

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

var errOver = errors.New("over")

func TestSleep(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		d, endsAfter, want time.Duration
		err                error
	}{
		"whole":            {d: time.Second, endsAfter: time.Minute, want: time.Second},
		"cut short":        {d: time.Minute, endsAfter: time.Second, want: time.Second, err: errOver},
		"both at once":     {d: time.Second, endsAfter: time.Second, want: time.Second, err: errOver},
		"nothing":          {d: 0, endsAfter: time.Second},
		"less than that":   {d: -time.Second, endsAfter: time.Second},
		"ended before":     {d: time.Second, endsAfter: 0, err: errOver},
		"ended before, 0s": {d: 0, endsAfter: 0, err: errOver},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				ctx, end := context.WithCancelCause(t.Context())
				if c.endsAfter == 0 {
					end(errOver)
				} else {
					defer time.AfterFunc(c.endsAfter, func() { end(errOver) }).Stop()
				}
				began := time.Now()
				err := Sleep(ctx, c.d)
				if took := time.Since(began); took != c.want {
					t.Errorf("it took %v, want %v", took, c.want)
				}
				// When both happen at the same moment, either may come first.
				if !errors.Is(err, c.err) && name != "both at once" {
					t.Errorf("%v, want %v", err, c.err)
				}
			})
		})
	}
}

// beginnings returns when calls began, in the time until ctx ended. Each call takes as long as took says, and 0 after that.
func beginnings(t *testing.T, until time.Duration, took []time.Duration, run func(ctx context.Context, do func(context.Context))) (at []time.Duration) {
	t.Helper()
	ctx, end := context.WithCancel(t.Context())
	defer end()
	began := time.Now()
	time.AfterFunc(until, end)
	inside := false
	run(ctx, func(ctx context.Context) {
		if inside || ctx.Err() != nil {
			t.Errorf("call %d overlaps another one, or comes after the end", len(at))
		}
		inside = true
		at = append(at, time.Since(began))
		if n := len(at) - 1; n < len(took) {
			time.Sleep(took[n])
		}
		inside = false
	})
	return at
}

func TestEvery(t *testing.T) {
	t.Parallel()
	const s = time.Second
	for name, c := range map[string]struct {
		every func(context.Context, time.Duration, func(context.Context))
		until time.Duration
		took  []time.Duration
		want  []time.Duration
	}{
		"at once":                         {Every, 35 * s, nil, []time.Duration{0, 10 * s, 20 * s, 30 * s}},
		"after an interval":               {AfterEvery, 35 * s, nil, []time.Duration{10 * s, 20 * s, 30 * s}},
		"a call takes time":               {Every, 25 * s, []time.Duration{4 * s, 9 * s}, []time.Duration{0, 10 * s, 20 * s}},
		"a call takes more than that":     {Every, 45 * s, []time.Duration{25 * s}, []time.Duration{0, 25 * s, 30 * s, 40 * s}},
		"the end comes before the first":  {AfterEvery, 5 * s, nil, nil},
		"the end comes in a call":         {Every, 5 * s, []time.Duration{12 * s}, []time.Duration{0}},
		"the end comes in a later call":   {AfterEvery, 15 * s, []time.Duration{12 * s}, []time.Duration{10 * s}},
		"the end was there at the start":  {Every, -s, nil, nil},
		"the end was there, first later":  {AfterEvery, -s, nil, nil},
		"the end comes with the interval": {AfterEvery, 10*s - 1, nil, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				at := beginnings(t, c.until, c.took, func(ctx context.Context, do func(context.Context)) {
					if c.until < 0 {
						ended, end := context.WithCancel(ctx)
						end()
						ctx = ended
					}
					c.every(ctx, 10*s, do)
				})
				if !slices.Equal(at, c.want) {
					t.Errorf("calls at %v, want %v", at, c.want)
				}
			})
		})
	}
}

func TestEveryEndsAtOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, end := context.WithCancel(t.Context())
		began := time.Now()
		time.AfterFunc(time.Minute, end)
		Every(ctx, time.Hour, func(context.Context) {})
		if took := time.Since(began); took != time.Minute {
			t.Errorf("it ended after %v", took)
		}
	})
}

func TestRepeat(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		pauses := []time.Duration{0, time.Second, -time.Second, time.Minute}
		var at []time.Duration
		ctx, end := context.WithCancel(t.Context())
		began := time.Now()
		time.AfterFunc(time.Minute, end)
		Repeat(ctx, func(context.Context) time.Duration {
			at = append(at, time.Since(began))
			time.Sleep(2 * time.Second)
			return pauses[len(at)-1]
		})
		if want := []time.Duration{0, 2 * time.Second, 5 * time.Second, 7 * time.Second}; !slices.Equal(at, want) {
			t.Errorf("calls at %v, want %v", at, want)
		}
		if took := time.Since(began); took != time.Minute {
			t.Errorf("it ended after %v", took)
		}
		Repeat(ctx, func(context.Context) time.Duration { t.Error("called after the end"); return 0 })
	})
}

func TestOutage(t *testing.T) {
	t.Parallel()
	var o Outage
	for i, c := range []struct {
		err   error
		first bool
	}{{nil, false}, {errOver, true}, {errOver, false}, {nil, false}, {nil, false}, {errOver, true}} {
		if got := o.Observe(c.err); got != c.first {
			t.Errorf("attempt %d: %v", i, got)
		}
	}
}

// An outage of one reading is logged once and counted each time; the other readings go on.
func TestWatcher(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		began := time.Now()
		var at []time.Duration
		var failed, late int
		fails := func() bool {
			d := time.Since(began)
			return d > 5*time.Second && d < 35*time.Second || d > 45*time.Second
		}
		w := Watcher{Interval: 10 * time.Second, Timeout: time.Second, Logger: slog.New(slog.NewTextHandler(&log, nil)), Readings: []Reading{
			{Check: "one", Failed: func() { failed++ }, Read: func(context.Context) error {
				if fails() {
					return errOver
				}
				return nil
			}},
			{Check: "two", Failed: func() { late++ }, Read: func(ctx context.Context) error {
				at = append(at, time.Since(began))
				<-ctx.Done() // as a database that does not answer
				return context.Cause(ctx)
			}},
		}}
		ctx, end := context.WithCancel(t.Context())
		time.AfterFunc(50*time.Second+500*time.Millisecond, end)
		if err := w.Run(ctx); err != nil {
			t.Error(err)
		}
		if want := []time.Duration{0, 10 * time.Second, 20 * time.Second, 30 * time.Second, 40 * time.Second, 50 * time.Second}; !slices.Equal(at, want) {
			t.Errorf("read at %v, want %v", at, want)
		}
		if failed != 4 || late != 5 { // the last reading was ended by ctx
			t.Errorf("%d and %d failed readings, want 4 and 5", failed, late)
		}
		if one, two := strings.Count(log.String(), "check=one "), strings.Count(log.String(), "check=two "); one != 2 || two != 1 {
			t.Errorf("%d and %d lines, want 2 and 1:\n%s", one, two, &log)
		}
	})
}
