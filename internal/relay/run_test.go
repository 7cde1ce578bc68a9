package relay

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
)

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
postrider_outbox_cycle_errors_total{loop="lead"} 0
postrider_outbox_cycle_errors_total{loop="retention"} 0
`), "postrider_outbox_publish_total", "postrider_outbox_cycle_errors_total")
	if err != nil {
		t.Error(err)
	}
	newMetrics(nil) // keeps them to itself
}

// TestRunWorksUntilItIsTold: a running relay sends events and letters, and stops when the batch in hand is done.
func TestRunWorksUntilItIsTold(t *testing.T) {
	bubble(t, func(t *testing.T, m *memory, pub *fakePublisher) {
		pub.outcome = func(context.Context, Message) Outcome {
			time.Sleep(100 * time.Millisecond)
			return Outcome{Class: Delivered}
		}
		r := testRelay(t, func(c *Config) { c.Store, c.Publisher = m, pub })
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- r.Run(ctx) }()
		m.write(with(keyed(0, "a"), unencodable), keyed(0, "b"))
		until(t, "both have ended", func() bool { return m.state(1) == DeadLettered && m.state(2) == Published })
		m.write(keyed(0, "c"))
		time.Sleep(60 * time.Millisecond) // in the middle of a batch
		stop()
		stopped := time.Now()
		if err := <-ended; err != nil {
			t.Errorf("Run() = %v", err)
		}
		if took := time.Since(stopped); took > 100*time.Millisecond || m.state(3) != Published || !m.terms[0].ended {
			t.Errorf("it stopped after %v, event 3 is %s, the term %+v", took, m.state(3), m.terms[0])
		}
		if err := m.check(); err != nil {
			t.Error(err)
		}
	})
}
