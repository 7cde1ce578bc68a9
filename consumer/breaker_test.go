package consumer

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"
)

// TestBreaker: a topic whose messages all fail is not given up as a whole; it pauses, tells, tries one now and then,
// and goes on when one is handled.
func TestBreaker(t *testing.T) {
	t.Parallel()
	inBothLanes(t, 3, func(t *testing.T, concurrency int) {
		f := newFake(map[string]int{"orders": 1})
		f.write(numbered("orders", 100, func(i int) string { return fmt.Sprint(i) })...)
		broken := atomic.Bool{}
		broken.Store(true)
		var events []BreakerEvent
		s := &script{do: func(context.Context, *Message) error {
			if broken.Load() {
				return Permanent(errBroken)
			}
			return nil
		}}
		cfg := Config{Concurrency: concurrency, OnBreaker: func(e BreakerEvent) { events = append(events, e) },
			Policy: Policy{Breaker: Breaker{Consecutive: 20, Pause: 30 * time.Second, MaxPause: 2 * time.Minute}}}
		c, _ := run(t, f, cfg, s)
		pass(10 * time.Second)
		if n := len(f.records(DefaultDeadLetterTopic)); n != 20 || len(events) != 1 || !events[0].Paused || events[0].Consecutive != 20 || !c.Status()[0].BreakerOpen {
			t.Errorf("%d dead letters, events %+v", n, events)
		}
		handled := len(s.values())
		pass(15 * time.Second)
		if n := len(s.values()); n != handled {
			t.Errorf("%d messages were tried during the pause", n-handled)
		}
		pass(4*time.Minute + 30*time.Second) // after 30s, 60s, 120s and 120s
		if n := len(f.records(DefaultDeadLetterTopic)); n != 23 || len(events) != 4 {
			t.Errorf("%d dead letters, %d events, want 23 and 4", n, len(events))
		}
		broken.Store(false)
		if !c.Resume("orders") || c.Resume("unknown") {
			t.Error("Resume")
		}
		pass(3 * time.Second)
		if n := len(f.records(DefaultDeadLetterTopic)); n != 23 || len(events) != 5 || events[4].Paused || f.at(p0) != 100 {
			t.Errorf("%d dead letters, events %+v, committed %d", n, events, f.at(p0))
		}
	})
}

// TestHungProbe: a probe whose handler hangs pauses the topic no longer than this member has its partition.
func TestHungProbe(t *testing.T) {
	t.Parallel()
	inBothLanes(t, 3, func(t *testing.T, concurrency int) {
		f := newFake(map[string]int{"orders": 1})
		f.write(numbered("orders", 40, func(i int) string { return fmt.Sprint(i) })...)
		var hangs, broken atomic.Bool
		broken.Store(true)
		s := &script{do: func(context.Context, *Message) error {
			if hangs.CompareAndSwap(true, false) {
				time.Sleep(10 * time.Minute)
				return errBroken
			}
			if broken.Load() {
				return Permanent(errBroken)
			}
			return nil
		}}
		c, _ := run(t, f, Config{Concurrency: concurrency, RevokeTimeout: time.Second, Policy: Policy{Breaker: Breaker{Consecutive: 20, Pause: 30 * time.Second}}}, s)
		pass(10 * time.Second)
		hangs.Store(true)
		pass(time.Minute)
		if hangs.Load() || !c.Status()[0].BreakerOpen {
			t.Fatalf("no probe hangs: %+v", c.Status()[0])
		}
		broken.Store(false)
		f.revoke(p0)
		f.assign(p0)
		pass(time.Minute)
		if f.at(p0) != 40 || c.Status()[0].BreakerOpen {
			t.Errorf("committed %d of 40: %+v", f.at(p0), c.Status()[0])
		}
		pass(10 * time.Minute) // its end changes nothing
		if c.Status()[0].BreakerOpen {
			t.Errorf("%+v", c.Status()[0])
		}
	})
}

// TestBreakerRatio: failures among successes count, too, and few of them open no breaker.
func TestBreakerRatio(t *testing.T) {
	t.Parallel()
	for every, open := range map[int]bool{3: false, 20: false, 1: true} {
		b := newBreaker("t", Policy{}.withDefaults().Breaker, func(BreakerEvent) {})
		refused := false
		for i := range 5000 {
			if i%every == 0 && (every > 1 || i%10 > 0) {
				refused = !b.admit(false, time.Now()) || refused
			} else {
				b.handled(1)
			}
		}
		if refused != open {
			t.Errorf("every %d: a breaker is open: %v, want %v", every, refused, open)
		}
	}
}
