package relay

import (
	"context"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
)

func infrastructure(context.Context, Message) Outcome {
	return Outcome{Class: Infrastructure, Code: "X"}
}

// TestLostBrokersHoldNothing: a relay that reaches no broker puts no hold in place and settles nothing, and goes on when
// one answers. Ten minutes are longer than a cycle may last: the gauge stays, and the reminders come further and further
// apart.
func TestLostBrokersHoldNothing(t *testing.T) {
	bubble(t, func(t *testing.T, m *memory, pub *fakePublisher) {
		const outage = 10 * time.Minute
		log, logged := capturedLog()
		start := time.Now()
		away := func() bool { return time.Since(start) <= outage }
		pub.outcome = func(ctx context.Context, msg Message) Outcome {
			if away() {
				return infrastructure(ctx, msg)
			}
			return Outcome{Class: Delivered}
		}
		pub.ping = func() error {
			if away() {
				return errTest
			}
			return nil
		}
		m.write(keyed(0, "a"), keyed(0, "b"), with(keyed(0, "c"), unencodable))
		x := run(t, m, pub, func(c *Config) { c.Logger = log })
		for away() {
			time.Sleep(time.Second)
			synctest.Wait()
			if receipts, holds := m.counts(); away() && (testutil.ToFloat64(x.metrics.brokersAway) != 1 || receipts+holds > 0) {
				t.Fatalf("after %v: the gauge is %v; %d receipts, %d holds", time.Since(start), testutil.ToFloat64(x.metrics.brokersAway), receipts, holds)
			}
		}
		x.done()
		if took := time.Since(start); took > outage+5*time.Second {
			t.Errorf("it went on after %v", took)
		}
		if testutil.ToFloat64(x.metrics.brokersAway) != 0 {
			t.Error("the gauge stays after the outage")
		}
		if got := pub.arrived(); !slices.Equal(got, []int64{1, 2, 1, 2}) || m.term != 1 {
			t.Errorf("sent %v in %d terms", got, m.term)
		}
		// 10 s, 20 s, 40 s … after the one before, with 5 minutes at most.
		for line, want := range map[string]int{"no broker answers: nothing": 1, "still no broker answers": 5, "brokers answer again": 1, "cycle failed": 0} {
			if n := strings.Count(logged(), line); n != want {
				t.Errorf("%q is in the log %d times, want %d", line, n, want)
			}
		}
	})
}

// TestLostBrokersPutBack: events that wait behind a hold, or for their time, stay as they are while no broker answers, and
// go when one does.
func TestLostBrokersPutBack(t *testing.T) {
	bubble(t, func(t *testing.T, m *memory, pub *fakePublisher) {
		phase := "topic away"
		pub.outcome = func(ctx context.Context, msg Message) Outcome {
			if phase == "back" {
				return Outcome{Class: Delivered}
			}
			return infrastructure(ctx, msg)
		}
		pub.ping = func() error {
			if phase == "brokers away" {
				return errTest
			}
			return nil
		}
		x := run(t, m, pub, nil)
		late := m.begin()
		late.insert(late.draw(), unkeyed(0), 30*time.Second)
		late.end(true)
		m.write(keyed(0, "a"), keyed(0, "a"), keyed(0, "b"))
		until(t, "they wait", func() bool { return m.state(4) == Parked && m.state(1) == Scheduled })
		touch()
		phase = "brokers away"
		touch()
		until(t, "no broker answers", func() bool { return testutil.ToFloat64(x.metrics.brokersAway) == 1 })
		written, _ := m.counts()
		time.Sleep(5 * time.Minute)
		if n, _ := m.counts(); n > written+2 {
			t.Errorf("%d receipts were written meanwhile", n-written)
		}
		touch()
		phase = "back"
		touch()
		x.done()
		until(t, "the hold ends", func() bool { _, holds := m.counts(); return holds == 0 })
		if got := m.waiting(); got != 0 {
			t.Errorf("%d wait", got)
		}
	})
}

// TestLettersWaitForLostBrokers: a claim that cannot be sent is given back, and nothing is claimed meanwhile.
func TestLettersWaitForLostBrokers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const outage = 10 * time.Minute
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		l := &fakeLetters{events: []Event{keyed(1, "a")}}
		claims := 0
		store := &fakeStore{letters: func(context.Context, func(string) string, int) (LetterClaim, error) {
			if claims++; claims > 1 {
				stop() // the brokers are back
			}
			return l, nil
		}}
		start := time.Now()
		away := func() bool { return time.Since(start) <= outage }
		pub := &fakePublisher{}
		r := testRelay(t, func(cfg *Config) { cfg.Store, cfg.Publisher = store, pub })
		pub.outcome = func(ctx context.Context, m Message) Outcome {
			if away() {
				return infrastructure(ctx, m)
			}
			return Outcome{Class: Delivered}
		}
		pub.ping = func() error {
			if !away() {
				return nil
			}
			if time.Since(start) > 0 && (l.abandoned != 1 || claims != 1 || testutil.ToFloat64(r.metrics.brokersAway) != 1) {
				t.Errorf("after %v: %d claims, %d given back", time.Since(start), claims, l.abandoned)
			}
			return errTest
		}
		r.loop(ctx, "test", r.sendLetters, newIdle(2*time.Millisecond, 50*time.Millisecond, 1))
		if took := time.Since(start); claims != 2 || l.abandoned != 1 || l.settled != 1 || took < outage || took > outage+5*time.Second {
			t.Errorf("%d claims, %d given back, settled %d times, after %v", claims, l.abandoned, l.settled, took)
		}
	})
}

// TestOthersWaitForLostBrokers: if the brokers are known to be lost already, a worker waits with the worker that asks.
func TestOthersWaitForLostBrokers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		r := testRelay(t, func(c *Config) {
			c.Publisher = &fakePublisher{ping: func() error {
				if time.Since(start) < time.Minute {
					return errTest
				}
				return nil
			}}
		})
		asks := make(chan struct{})
		go func() { defer close(asks); r.awaitBrokers(t.Context(), errTest) }()
		synctest.Wait()
		if _, err := r.sendLetters(t.Context()); err == nil || err.Error() != "no broker answers" {
			t.Errorf("sendLetters() = %v", err)
		}
		r.endure(t.Context(), &brokersLost{})
		r.awaitBrokers(t.Context(), errTest)
		if waited := time.Since(start); waited < time.Minute || waited > time.Minute+10*time.Second {
			t.Errorf("they waited for %v", waited)
		}
		<-asks
		if got := (&brokersLost{errTest}).Error(); !strings.Contains(got, errTest.Error()) {
			t.Errorf("it says %q", got)
		}
	})
}

// TestDeadTopicIsNotALostBroker: brokers that answer leave the fault with the topic.
func TestDeadTopicIsNotALostBroker(t *testing.T) {
	bubble(t, func(t *testing.T, m *memory, pub *fakePublisher) {
		pub.outcome = infrastructure
		run(t, m, pub, nil)
		m.write(keyed(0, "a"))
		until(t, "the topic is held", func() bool { return len(m.heldBy(CauseInfrastructure)) == 1 })
	})
}
