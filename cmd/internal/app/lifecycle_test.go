package app

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

func TestLifecycleStopsLastFirstAndOnce(t *testing.T) {
	t.Parallel()
	l := newLifecycle(slog.New(slog.DiscardHandler))
	var order []string
	broken := errors.New("broken")
	for _, name := range []string{"pool", "client", "server"} {
		added := l.add(step{name: name, limit: time.Minute, ask: func() { order = append(order, "ask "+name) }, stop: func(context.Context) error {
			order = append(order, name)
			if name == "client" {
				return broken
			}
			return nil
		}})
		if !added {
			t.Fatal("not added")
		}
	}
	errs := make([]error, 4)
	var wg sync.WaitGroup
	for i := range errs {
		wg.Go(func() { errs[i] = l.stop(t.Context()) })
	}
	wg.Wait()
	for _, err := range errs {
		if !errors.Is(err, broken) || !strings.Contains(err.Error(), "stop the client") {
			t.Errorf("stop returned %v", err)
		}
	}
	if want := []string{"ask pool", "ask client", "ask server", "server", "client", "pool"}; !slices.Equal(order, want) {
		t.Errorf("order %v, want %v", order, want)
	}
	if l.add(step{}) {
		t.Error("a step was added after the stop")
	}
}

// A step that hangs costs its own limit and keeps none of the others from stopping; all together
// they cost the limit of the whole.
func TestLifecycleIsBounded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := newLifecycle(slog.New(slog.DiscardHandler))
		hang := make(chan struct{})
		defer close(hang)
		stopped := false
		l.add(step{name: "pool", limit: 2 * time.Second, stop: func(context.Context) error { stopped = true; return nil }})
		l.add(step{name: "deaf", limit: 3 * time.Second, stop: func(context.Context) error { <-hang; return nil }})
		l.add(step{name: "slow", limit: 4 * time.Second, stop: func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }})
		began := time.Now()
		err := l.stop(context.Background())
		if took := time.Since(began); took < 7*time.Second || took > 8*time.Second {
			t.Errorf("it took %v, the limits add up to 7s", took)
		}
		if !stopped || err == nil || !strings.Contains(err.Error(), "stop the deaf: it did not end within 3s") || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("stopped %v, error %v", stopped, err)
		}
	})
	synctest.Test(t, func(t *testing.T) {
		l := newLifecycle(slog.New(slog.DiscardHandler))
		hang := make(chan struct{})
		defer close(hang)
		for range 10 {
			l.add(step{name: "deaf", limit: 20 * time.Second, stop: func(context.Context) error { <-hang; return nil }})
		}
		began := time.Now()
		_ = l.stop(context.Background())
		if took := time.Since(began); took >= 30*time.Second {
			t.Errorf("a stop took %v", took)
		}
	})
}

func TestParts(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		run  func(ctx context.Context, testEnds <-chan struct{}) error
		want string
	}{
		"ends when asked":    {run: func(ctx context.Context, _ <-chan struct{}) error { <-ctx.Done(); return nil }},
		"fails when asked":   {run: func(ctx context.Context, _ <-chan struct{}) error { <-ctx.Done(); return errors.New("unwell") }, want: "stop the worker: unwell"},
		"fails unasked":      {run: func(context.Context, <-chan struct{}) error { return errors.New("unwell") }, want: "the worker failed: unwell"},
		"ends unasked":       {run: func(context.Context, <-chan struct{}) error { return nil }, want: "the worker failed: it ended by itself"},
		"does not end asked": {run: func(_ context.Context, testEnds <-chan struct{}) error { <-testEnds; return nil }, want: "stop the worker"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				testEnds := make(chan struct{})
				defer close(testEnds)
				run := func(ctx context.Context) error { return c.run(ctx, testEnds) }
				log := slog.New(slog.DiscardHandler)
				a := &App{log: log, lifecycle: newLifecycle(log), failed: make(chan error, 1),
					parts: []part{{name: "worker", limit: 5 * time.Second, run: run}}}
				ctx, cancel := context.WithTimeout(t.Context(), time.Second)
				defer cancel()
				err := a.Run(ctx)
				if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
					t.Errorf("Run returned %v, want %q", err, c.want)
				}
				if err != nil && strings.Count(err.Error(), "unwell") > 1 {
					t.Errorf("said twice: %v", err)
				}
			})
		})
	}
}

// Parts end side by side: one that takes its time takes none from those that have ended.
func TestPartsEndSideBySide(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		log := slog.New(slog.DiscardHandler)
		a := &App{log: log, lifecycle: newLifecycle(log), failed: make(chan error, 1)}
		for range 10 {
			a.parts = append(a.parts, part{name: "quick", run: func(ctx context.Context) error { <-ctx.Done(); return nil }})
		}
		a.parts = append(a.parts, part{name: "slow", limit: 3 * endLimit, run: func(ctx context.Context) error {
			<-ctx.Done()
			time.Sleep(2 * endLimit)
			return nil
		}})
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := a.Run(ctx); err != nil {
			t.Error(err)
		}
	})
}

func TestParseRoles(t *testing.T) {
	t.Parallel()
	for text, want := range map[string][]Role{"relay": {Relay}, "collector, http": {Collector, HTTP}, "relay,collector,detector,archiver,operator,http": Roles()} {
		if got, err := ParseRoles(text); err != nil || !slices.Equal(got, want) {
			t.Errorf("%q: %v, %v", text, got, err)
		}
	}
	for _, text := range []string{"", "relay,", "api", "relay,relay"} {
		if got, err := ParseRoles(text); err == nil {
			t.Errorf("%q: %v", text, got)
		}
	}
}
