package relay

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
)

// died says that n relays have died one after the other, each without a receipt.
func (m *memory) died(n int, tried ...int64) {
	for range n {
		m.term++
		m.terms = append(m.terms, memoryTerm{term: m.term, position: m.position, worker: "dead " + string(rune('a'+m.term))})
	}
	m.tried = append(m.tried, tried...)
}

// batches are the sizes of what was sent together.
func (p *fakePublisher) batches() (sizes []int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, ms := range p.sent {
		sizes = append(sizes, len(ms))
	}
	return sizes
}

// TestDeathsMakeBatchesSmaller, and batches that are written down double them; two deaths are no reason.
func TestDeathsMakeBatchesSmaller(t *testing.T) {
	for name, c := range map[string]struct {
		deaths, small int
	}{"two": {2, 16}, "three": {3, 4}, "four": {4, 1}} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, m *memory, pub *fakePublisher) {
				m.died(c.deaths)
				m.write(slices.Repeat([]Event{unkeyed(0)}, 80)...)
				x := run(t, m, pub, func(cfg *Config) { cfg.BatchSize = 16 })
				x.done()
				got, sum, most := pub.batches(), 0, c.small
				for _, n := range got {
					if n > most {
						t.Errorf("batches of %v, want %d at first and no more than twice as many from one to the next", got, c.small)
					}
					sum, most = sum+n, min(2*most, 16)
				}
				if got[0] != c.small {
					t.Errorf("batches of %v, want %d at first", got, c.small)
				}
				if sum != 80 || slices.Max(got) != 16 || testutil.ToFloat64(x.metrics.careful) != 0 {
					t.Errorf("batches of %v, the gauge is %v", got, testutil.ToFloat64(x.metrics.careful))
				}
			})
		})
	}
}

// TestTriedAlone: an attempt is written down before it is made, and what has died with the relay as often as it may is given
// up unsent, and nothing else is.
func TestTriedAlone(t *testing.T) {
	bubble(t, func(t *testing.T, m *memory, pub *fakePublisher) {
		log, logged := capturedLog()
		m.write(keyed(0, "a"), keyed(0, "a"), with(keyed(0, "b"), func(e *Event) { e.MaxAttempts = 1 }))
		m.died(9, 1, 1, 1)
		x := run(t, m, pub, func(c *Config) { c.BatchSize, c.Logger = 16, log })
		x.done()
		until(t, "it is dead-lettered", func() bool { return m.state(1) == DeadLettered })
		if got := pub.arrived(); !slices.Equal(got, []int64{2, 3}) || m.exceptions[1].code != CodeWorkerKilled {
			t.Errorf("arrived %v; event 1 was given up with %s", got, m.exceptions[1].code)
		}
		if !strings.Contains(logged(), "the relay died each of the 3 times") {
			t.Errorf("the log:\n%s", logged())
		}
	})
}

// TestTriedAloneIsNoted before it is sent.
func TestTriedAloneIsNoted(t *testing.T) {
	bubble(t, func(t *testing.T, m *memory, pub *fakePublisher) {
		log, logged := capturedLog()
		m.write(keyed(0, "a"), keyed(0, "b"))
		m.died(9)
		pub.outcome = func(_ context.Context, msg Message) Outcome {
			if id := int64(msg.ID.EventID[15]); id == 1 && !slices.Equal(m.tried, []int64{1}) {
				t.Errorf("event 1 is sent, and %v are noted as tried", m.tried)
			}
			return Outcome{Class: Delivered}
		}
		x := run(t, m, pub, func(c *Config) { c.BatchSize, c.Logger = 16, log })
		x.done()
		if got := pub.arrived(); !slices.Equal(got, []int64{1, 2}) || pub.batches()[0] != 1 || !strings.Contains(logged(), "trying it alone") {
			t.Errorf("arrived %v in batches of %v; the log:\n%s", got, pub.batches(), logged())
		}
	})
}

// TestAnOutageChargesNobody: while no broker answers no attempt is written down.
func TestAnOutageChargesNobody(t *testing.T) {
	bubble(t, func(t *testing.T, m *memory, pub *fakePublisher) {
		away := true
		pub.ping = func() error {
			if away {
				return errTest
			}
			return nil
		}
		pub.outcome = while(&away, infrastructure)
		m.died(9)
		m.write(keyed(0, "a"))
		x := run(t, m, pub, func(c *Config) { c.BatchSize = 16 })
		time.Sleep(10 * time.Minute)
		if len(m.tried) != 0 || len(pub.arrived()) != 0 {
			t.Errorf("tried %v, arrived %v", m.tried, pub.arrived())
		}
		if testutil.ToFloat64(x.metrics.careful) != 1 {
			t.Error("the gauge does not say that it is careful")
		}
		away = false
		x.done()
		if !slices.Equal(m.tried, []int64{1}) {
			t.Errorf("tried %v", m.tried)
		}
		// Told to stop while it waits for a broker, it does not.
		away = true
		m.cut(true)
		m.died(9)
		m.write(keyed(0, "b"))
		until(t, "no broker answers", func() bool { return testutil.ToFloat64(x.metrics.brokersAway) == 1 })
		x.stop()
		if m.state(2) != Pending || len(m.tried) != 1 {
			t.Errorf("event 2 is %s, tried %v", m.state(2), m.tried)
		}
	})
}
