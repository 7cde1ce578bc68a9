package relay

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/postrider/postrider/relay/outbox"
)

func TestRunWorksUntilItIsTold(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		workers := map[string]int{}
		letters, returns := 0, 0
		store := &fakeStore{
			claim: func(_ context.Context, l Limits) (Claim, error) {
				mu.Lock()
				defer mu.Unlock()
				workers[l.Worker]++
				shard := int16(l.Worker[len(l.Worker)-1] - '0') // a worker has the lock of its shard
				return &fakeClaim{batch: Batch{Events: []outbox.Event{with(keyed(1, "a"), func(e *outbox.Event) { e.Shard = shard })}}}, nil
			},
			letters: func(context.Context, func(string) string, int) (LetterClaim, error) { letters++; return nil, nil },
			back: func(_ context.Context, limit int, grace time.Duration) (Returned, error) {
				if limit < 1 || grace != 25*time.Second { // two publish timeouts and a little
					t.Errorf("Return(%d, %v)", limit, grace)
				}
				returns++
				return Returned{}, nil
			},
		}
		pub := &fakePublisher{outcome: func(context.Context, Message) Outcome {
			time.Sleep(100 * time.Millisecond)
			return Outcome{Class: Delivered}
		}}
		r := testRelay(t, func(c *Config) { c.Store, c.Publisher, c.Worker, c.Workers = store, pub, "w", 3 })
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- r.Run(ctx) }()
		time.Sleep(10*time.Second + time.Millisecond) // in the middle of a batch
		stop()
		stopped := time.Now()
		if err := <-ended; err != nil {
			t.Errorf("Run() = %v", err)
		}
		if took := time.Since(stopped); took > 100*time.Millisecond {
			t.Errorf("it stopped after %v, want when the batch in hand is done", took)
		}
		if len(workers) != 3 || letters < 30 || returns < 150 {
			t.Errorf("workers %v, %d looks for letters, %d returns", workers, letters, returns)
		}
		for name, n := range workers {
			if !strings.HasPrefix(name, r.cfg.Worker+"/") || n < 90 {
				t.Errorf("worker %s claimed %d times", name, n)
			}
		}
	})
}

func TestRunTwiceInARow(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := testRelay(t, nil)
		for range 50 {
			ctx, stop := context.WithCancel(t.Context())
			ended := make(chan error)
			go func() { ended <- r.Run(ctx) }()
			synctest.Wait()
			stop()
			if err := <-ended; err != nil {
				t.Fatal(err)
			}
		}
		ctx, stop := context.WithCancel(t.Context())
		stop()
		if err := r.Run(ctx); err != nil { // told to stop before it began
			t.Fatal(err)
		}
	})
}

func TestReturnedEventsWakeTheWorkers(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		got   Returned
		err   error
		n     int
		wakes int
		logs  string
	}{
		"nothing":            {},
		"events":             {got: Returned{Events: 3}, n: 3, wakes: 1},
		"the end of a hold":  {got: Returned{Holds: 1}, n: 1, logs: "holds ended"},
		"events and holds":   {got: Returned{Events: 2, Holds: 2}, n: 4, wakes: 1, logs: "holds=2"},
		"a database failure": {err: errTest},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			log, logged := capturedLog()
			store := &fakeStore{back: func(context.Context, int, time.Duration) (Returned, error) { return c.got, c.err }}
			r := testRelay(t, func(cfg *Config) { cfg.Store, cfg.Logger = store, log })
			n, err := r.returnHeld(t.Context())
			if n != c.n || !errors.Is(err, c.err) || len(r.idle.wake) != c.wakes {
				t.Errorf("returnHeld() = %d, %v; %d wake-ups", n, err, len(r.idle.wake))
			}
			if got := logged(); !strings.Contains(got, c.logs) || c.logs == "" && got != "" {
				t.Errorf("the log is %q, want %q", got, c.logs)
			}
		})
	}
}

func TestMetrics(t *testing.T) {
	t.Parallel()
	reg := prometheus.NewRegistry()
	m := newMetrics(reg)
	m.count([]Outcome{{Class: Delivered}, {Class: Delivered}, {Class: Record}})
	err := testutil.GatherAndCompare(reg, strings.NewReader(`
# HELP postrider_outbox_publish_total Outcomes of publishing outbox events, by class.
# TYPE postrider_outbox_publish_total counter
postrider_outbox_publish_total{class="delivered"} 2
postrider_outbox_publish_total{class="infrastructure"} 0
postrider_outbox_publish_total{class="permanent"} 0
postrider_outbox_publish_total{class="record"} 1
postrider_outbox_publish_total{class="route"} 0
postrider_outbox_publish_total{class="withheld"} 0
# HELP postrider_outbox_cycle_errors_total Relay cycles that failed, by loop.
# TYPE postrider_outbox_cycle_errors_total counter
postrider_outbox_cycle_errors_total{loop="backlog"} 0
postrider_outbox_cycle_errors_total{loop="dead_letter"} 0
postrider_outbox_cycle_errors_total{loop="publish"} 0
postrider_outbox_cycle_errors_total{loop="retention"} 0
postrider_outbox_cycle_errors_total{loop="return"} 0
`), "postrider_outbox_publish_total", "postrider_outbox_cycle_errors_total")
	if err != nil {
		t.Error(err)
	}
	newMetrics(nil) // keeps them to itself
}
