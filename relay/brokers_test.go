package relay

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/postrider/postrider/relay/outbox"
)

func infrastructure(context.Context, Message) Outcome {
	return Outcome{Class: Infrastructure, Code: "X"}
}

// TestLostBrokersHoldNothing: a relay that reaches no broker gives its claim back before it waits, puts no hold in
// place, and goes on when a broker answers. Ten minutes are longer than a cycle may last: nothing is claimed
// meanwhile, the gauge stays, and the reminders come further and further apart.
func TestLostBrokersHoldNothing(t *testing.T) {
	t.Parallel()
	const outage = 10 * time.Minute
	for name, letters := range map[string]bool{"publish": false, "dead_letter": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) { testLostBrokers(t, outage, letters) })
		})
	}
}

func testLostBrokers(t *testing.T, outage time.Duration, letters bool) {
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	c := &fakeClaim{batch: Batch{Events: []outbox.Event{keyed(1, "a")}}}
	l := &fakeLetters{events: []outbox.Event{keyed(1, "a")}}
	claims, abandoned := 0, func() int { return c.abandoned + l.abandoned }
	claim := func() {
		if claims++; claims > 1 {
			stop() // the brokers are back
		}
	}
	store := &fakeStore{
		claim:   func(context.Context, Limits) (Claim, error) { claim(); return c, nil },
		letters: func(context.Context, func(string) string, int) (LetterClaim, error) { claim(); return l, nil },
	}
	pub := &fakePublisher{}
	log, text := capturedLog()
	r := testRelay(t, func(cfg *Config) { cfg.Store, cfg.Publisher, cfg.Logger = store, pub, log })
	start := time.Now()
	away := func() bool { return time.Since(start) <= outage }
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
		if time.Since(start) > 0 && (abandoned() != 1 || claims != 1 || testutil.ToFloat64(r.metrics.brokersAway) != 1) {
			t.Errorf("after %v: %d claims, %d given back, the gauge is %v", time.Since(start), claims, abandoned(), testutil.ToFloat64(r.metrics.brokersAway))
		}
		return errors.New("connection refused")
	}
	once := (&worker{relay: r, id: "w/0"}).runOnce
	if letters {
		once = r.sendLetters
	}
	r.loop(ctx, "test", once, newIdle(2*time.Millisecond, 50*time.Millisecond, 1))
	if claims != 2 || abandoned() != 1 || (c.settled == nil) == (l.settled == 0) {
		t.Errorf("%d claims, %d given back, settled %v and %d", claims, abandoned(), c.settled, l.settled)
	}
	if took := time.Since(start); took < outage || took > outage+5*time.Second {
		t.Errorf("it went on after %v", took)
	}
	if testutil.ToFloat64(r.metrics.brokersAway) != 0 {
		t.Error("the gauge stays after the outage")
	}
	// 10 s, 20 s, 40 s … after the one before, with 5 minutes at most.
	for line, want := range map[string]int{"no broker answers: nothing": 1, "still no broker answers": 5, "brokers answer again": 1, "cycle failed": 0} {
		if n := strings.Count(text(), line); n != want {
			t.Errorf("%q is in the log %d times, want %d", line, n, want)
		}
	}
}

// TestOtherWorkersWaitForLostBrokers instead of claiming what they cannot send either.
func TestOtherWorkersWaitForLostBrokers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		claims := 0
		start := time.Now()
		pub := &fakePublisher{outcome: infrastructure, ping: func() error {
			if time.Since(start) < time.Minute {
				return errTest
			}
			return nil
		}}
		ctx, stop := context.WithCancel(t.Context())
		store := &fakeStore{claim: func(context.Context, Limits) (Claim, error) {
			if claims++; claims > 1 {
				stop()
				if time.Since(start) < time.Minute {
					t.Errorf("it claims after %v", time.Since(start))
				}
			}
			return &fakeClaim{batch: Batch{Events: []outbox.Event{keyed(1, "a")}}}, nil
		}}
		w, r := cycleOf(t, store, pub)
		var wg sync.WaitGroup
		run := func(w *worker) {
			wg.Go(func() { r.loop(ctx, "publish", w.runOnce, newIdle(2*time.Millisecond, 50*time.Millisecond, 1)) })
			synctest.Wait()
		}
		run(w)
		run(&worker{relay: r, id: "w/1"})
		wg.Wait()
	})
}

// TestDeadTopicIsNotALostBroker: brokers that answer leave the fault with the topic.
func TestDeadTopicIsNotALostBroker(t *testing.T) {
	t.Parallel()
	c := &fakeClaim{batch: Batch{Events: []outbox.Event{keyed(1, "a")}}}
	w, _ := cycleOf(t, claimOf(c), &fakePublisher{outcome: infrastructure})
	if _, err := w.runOnce(t.Context()); err != nil || c.settled == nil || len(c.settled.Holds) != 1 {
		t.Errorf("%v; settled %+v", err, c.settled)
	}
}
