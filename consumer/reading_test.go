package consumer

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
)

// TestReadingFails: a poll that fails is repeated after a pause, and the messages are handled. A client that was closed
// ends Run.
func TestReadingFails(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFake(map[string]int{"orders": 1})
		f.write(rec("orders", "a", "a1"))
		began, fails := time.Now(), 3
		f.poll = func() ([]Batch, error) {
			if fails--; fails >= 0 {
				return nil, errBroken
			}
			return nil, nil
		}
		s := &script{}
		run(t, f, Config{}, s)
		pass(time.Second)
		if calls := s.of("a1"); len(calls) != 1 || calls[0].at.Sub(began) != 3*pollPause {
			t.Errorf("handled %v after %v", s.values(), began)
		}
	})
	synctest.Test(t, func(t *testing.T) {
		f := newFake(map[string]int{"orders": 1})
		closed := make(chan struct{})
		f.poll = func() ([]Batch, error) { <-closed; return nil, fmt.Errorf("poll: %w", ErrClosed) }
		c, err := New(Config{Client: f, Group: "g", Topics: []string{"orders"}}, &script{})
		if err != nil {
			t.Fatal(err)
		}
		close(closed)
		if err := c.Run(t.Context()); !errors.Is(err, ErrClosed) {
			t.Errorf("Run: %v", err)
		}
		if err := c.Run(t.Context()); err == nil || !strings.Contains(err.Error(), "twice") {
			t.Errorf("Run again: %v", err)
		}
	})
}

// TestJoiningFailsHalfway: the partitions that the member has by then are let go, and the group is left.
func TestJoiningFailsHalfway(t *testing.T) {
	t.Parallel()
	f := newFake(map[string]int{"orders": 2})
	f.refuseOpen = errBroken
	c, err := New(Config{Client: f, Group: "g", Topics: []string{"orders"}}, &script{})
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Run(t.Context()); !errors.Is(err, errBroken) {
		t.Errorf("Run: %v", err)
	}
	if !f.closed || len(c.Status()) != 0 {
		t.Errorf("closed: %v, partitions %+v", f.closed, c.Status())
	}
}

// TestRecordsThatAreGone: records that retention deleted before they were read are counted. Records of a partition that
// the member does not have are not handled.
func TestRecordsThatAreGone(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFake(map[string]int{"orders": 1})
		batches := []Batch{{Partition: p0, End: 3, Missed: 3}, {Partition: Partition{"orders", 9}, End: 1, Messages: []Message{{Topic: "orders", Partition: 9, Value: []byte("not ours")}}}}
		f.poll = func() ([]Batch, error) {
			defer func() { batches = nil }()
			return batches, nil
		}
		f.write(rec("orders", "a", "ours"))
		s, reg := &script{}, prometheus.NewRegistry()
		run(t, f, Config{Registerer: reg}, s)
		pass(time.Second)
		want(t, "handled", s.values(), []string{"ours"})
		const expected = `
# HELP postrider_consumer_missed_offsets_total Offsets that retention deleted before they were read.
# TYPE postrider_consumer_missed_offsets_total counter
postrider_consumer_missed_offsets_total{topic="orders"} 3
`
		if err := testutil.GatherAndCompare(reg, strings.NewReader(expected), "postrider_consumer_missed_offsets_total"); err != nil {
			t.Error(err)
		}
	})
}

// TestHandlersCatchUp: the next poll waits until handlers have caught up, because a partition that is paused throws away what
// was fetched. It waits for slow handlers no longer than breath.
func TestHandlersCatchUp(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		takes, waits time.Duration
	}{"quick": {time.Millisecond, 6 * time.Millisecond}, "slow": {time.Minute, breath}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				f := newFake(map[string]int{"orders": 8, "orders.g.retry": 1})
				f.fetch = 6
				for id := range int32(8) {
					for range 60 {
						f.logs[Partition{"orders", id}] = append(f.logs[Partition{"orders", id}], stored{Record: rec("orders", "", "x")})
					}
				}
				var polls []time.Time
				f.poll = func() ([]Batch, error) { polls = append(polls, time.Now()); return nil, nil }
				s := &script{do: func(context.Context, *Message) error { time.Sleep(c.takes); return nil }}
				run(t, f, Config{MaxInFlight: 90, Policy: Policy{Delays: []time.Duration{}}}, s) // 10 of each partition; all have 48 after the first poll
				pass(2 * time.Hour)
				if waited := polls[1].Sub(polls[0]); len(s.values()) != 480 || waited != c.waits {
					t.Errorf("handled %d, the second poll came after %v, want %v", len(s.values()), waited, c.waits)
				}
			})
		})
	}
}

// TestBatchesOfRetries: the messages of a retry topic that are due go to the handler together, and the others wait. While the
// circuit breaker of a topic is open its messages go alone.
func TestBatchesOfRetries(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFake(map[string]int{"orders": 1})
		var retried [][]string
		var broken atomic.Bool
		broken.Store(true)
		h := BatchFunc(func(_ context.Context, ms []*Message) error {
			failed := map[int]error{}
			var values []string
			for i, m := range ms {
				values = append(values, string(m.Value))
				if broken.Load() {
					failed[i] = errBroken
				}
			}
			if ms[0].Attempt() > 1 {
				retried = append(retried, values)
			}
			if broken.Load() {
				return &BatchError{failed}
			}
			return nil
		})
		run(t, f, Config{Batch: 10, Policy: Policy{Delays: []time.Duration{time.Minute}}}, h)
		f.write(rec("orders", "", "1"), rec("orders", "", "2"))
		pass(30 * time.Second)
		f.write(rec("orders", "", "3"))
		pass(time.Second)
		broken.Store(false)
		pass(time.Hour)
		if got := fmt.Sprint(retried); got != "[[1 2] [3]]" {
			t.Errorf("tried again: %s", got)
		}
	})
	synctest.Test(t, func(t *testing.T) {
		f := newFake(map[string]int{"orders": 1})
		f.write(numbered("orders", 40, func(int) string { return "" })...)
		var broken atomic.Bool
		broken.Store(true)
		var mu sync.Mutex
		var sizes []int
		batches := func() string {
			mu.Lock()
			defer mu.Unlock()
			return fmt.Sprint(sizes)
		}
		h := BatchFunc(func(ctx context.Context, ms []*Message) error {
			if _, limited := ctx.Deadline(); !limited {
				t.Error("a handler without a deadline")
			}
			mu.Lock()
			sizes = append(sizes, len(ms))
			mu.Unlock()
			if !broken.Load() {
				return nil
			}
			failed := map[int]error{}
			for i := range ms {
				failed[i] = Permanent(errBroken)
			}
			return &BatchError{failed}
		})
		c, _ := run(t, f, Config{Batch: 5, Policy: Policy{HandleTimeout: time.Minute, Breaker: Breaker{Consecutive: 10, Pause: time.Minute, MaxPause: time.Minute}}}, h)
		pass(2*time.Minute + time.Second)
		if open := c.Status()[0].BreakerOpen; !open || batches() != "[5 5 5 1 1]" || len(f.records(DefaultDeadLetterTopic)) != 12 {
			t.Errorf("open: %v, batches %v, %d dead letters", open, batches(), len(f.records(DefaultDeadLetterTopic)))
		}
		broken.Store(false)
		pass(time.Hour)
		// The third probe was handled. The last two of its batch had failed before.
		if n := len(f.records(DefaultDeadLetterTopic)); f.at(p0) != 40 || n != 14 || batches() != "[5 5 5 1 1 1 5 5 5 5 5]" {
			t.Errorf("committed %d, batches %v, %d dead letters", f.at(p0), batches(), n)
		}
	})
}
