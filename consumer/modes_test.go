package consumer

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"
	"weak"

	"github.com/postrider/postrider/message"
)

// TestOrdered: a failing key waits with its later messages, others pass, and the offset does not pass it.
func TestOrdered(t *testing.T) {
	t.Parallel()
	inBothLanes(t, 3, func(t *testing.T, concurrency int) {
		f := newFake(map[string]int{"orders": 1})
		f.write(rec("orders", "a", "a1"), rec("orders", "b", "b1"), rec("orders", "b", "b2"), rec("orders", "a", "a2"), rec("orders", "", "n1"), rec("orders", "b", "b3"))
		s := &script{do: func(_ context.Context, m *Message) error {
			if string(m.Value) == "b1" && m.Attempt() < 4 {
				return errBroken
			}
			return nil
		}}
		_, stop := run(t, f, Config{Concurrency: concurrency, Policy: Policy{Mode: Ordered}}, s)
		time.Sleep(5 * time.Second)
		if got := s.values(); slices.Contains(got, "b2") || !slices.Contains(got, "n1") || slices.Index(got, "a2") < slices.Index(got, "a1") {
			t.Errorf("while b waits: %v", got)
		}
		if f.at(p0) != 1 {
			t.Errorf("committed %d while the message at 1 waits", f.at(p0))
		}
		time.Sleep(10 * time.Minute)
		var bs []string
		for _, v := range s.values() {
			if v[0] == 'b' {
				bs = append(bs, v)
			}
		}
		want(t, "key b", bs, []string{"b1", "b1", "b1", "b1", "b2", "b3"})
		b1 := s.of("b1")
		for i, d := range DefaultDelays()[:3] {
			if waited := b1[i+1].at.Sub(b1[i].end); waited != d || b1[i+1].n != i+2 {
				t.Errorf("attempt %d came after %v, want %v", b1[i+1].n, waited, d)
			}
		}
		if err := stop(); err != nil {
			t.Error(err)
		}
		if f.at(p0) != 6 {
			t.Errorf("committed %d, want 6", f.at(p0))
		}
	})
}

// TestOrderedGivesUp: after its last attempt a message becomes a dead letter and its key goes on.
func TestOrderedGivesUp(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFake(map[string]int{"orders": 1})
		f.write(rec("orders", "a", "bad"), rec("orders", "a", "next"))
		s := &script{do: func(_ context.Context, m *Message) error {
			if string(m.Value) == "bad" {
				return errBroken
			}
			return nil
		}}
		run(t, f, Config{Policy: Policy{Mode: Ordered, Delays: []time.Duration{time.Second}}}, s)
		time.Sleep(time.Minute)
		want(t, "handled", s.values(), []string{"bad", "bad", "next"})
		want(t, "dead letters", f.values(DefaultDeadLetterTopic), []string{"bad"})
		want(t, "retried elsewhere", f.values("orders.g.retry"), nil)
	})
}

// TestWaitingIsCopied: a message that waits in memory, and the others of its key, do not keep their fetch in memory.
func TestWaitingIsCopied(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFake(map[string]int{"orders": 1})
		bad := rec("orders", "a", "bad")
		bad.Headers = []message.Header{{Name: "h", Value: []byte("v")}, {Name: "null"}, {Name: "empty", Value: []byte{}}}
		f.write(bad, rec("orders", "b", "done"), rec("orders", "a", "behind"))
		fetched := map[string]*byte{"bad": &bad.Value[0], "behind": &f.logs[p0][2].Value[0]}
		var batch weak.Pointer[Message]
		s := &script{do: func(_ context.Context, m *Message) error {
			switch {
			case string(m.Value) == "done":
				batch = weak.Make(m) // an element of all that was fetched
			case string(m.Value) == "bad" && m.Attempt() == 1:
				return errBroken
			case &m.Value[0] == fetched[string(m.Value)]:
				t.Errorf("%s has the bytes that were fetched", m.Value)
			case string(m.Value) == "bad" && fmt.Sprintf("%q", m.Headers) != fmt.Sprintf("%q", bad.Headers):
				t.Errorf("the headers are %q", m.Headers)
			}
			return nil
		}}
		run(t, f, Config{Policy: Policy{Mode: Ordered, Delays: []time.Duration{time.Hour}}}, s)
		pass(time.Minute)
		f.write(rec("orders", "c", "next")) // another fetch, so that nothing holds the first
		pass(time.Minute)
		runtime.GC()
		if batch.Value() != nil {
			t.Error("the fetch is in memory while one of its messages waits")
		}
		pass(2 * time.Hour)
		if got := s.values(); len(got) != 5 || f.at(p0) != 4 {
			t.Errorf("handled %v, committed %d", got, f.at(p0))
		}
	})
}

// TestBlocking: the partition waits, and another one passes.
func TestBlocking(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFake(map[string]int{"orders": 2})
		f.write(numbered("orders", 20, func(i int) string { return fmt.Sprint(i) })...)
		first := string(f.logs[p0][0].Value)
		s := &script{do: func(_ context.Context, m *Message) error {
			if string(m.Value) == first && m.Attempt() <= 7 {
				return errBroken
			}
			return nil
		}}
		c, _ := run(t, f, Config{Policy: Policy{Mode: Blocking, Delays: []time.Duration{time.Second, time.Minute}, Endless: true}}, s)
		time.Sleep(4 * time.Minute)
		if n := len(f.logs[Partition{"orders", 1}]); len(s.values()) != n+5 {
			t.Errorf("%d calls after 4 minutes, want %d of the other partition, and 5", len(s.values()), n)
		}
		for _, p := range c.Status() {
			if p.Partition == p0 && (p.Lag != int64(len(f.logs[p0])) || p.Standing != "") {
				t.Errorf("the waiting partition is %+v", p)
			}
		}
		time.Sleep(10 * time.Minute)
		var got []string
		for _, v := range s.values() {
			if slices.ContainsFunc(f.logs[p0], func(s stored) bool { return string(s.Value) == v }) && !slices.Contains(got, v) {
				got = append(got, v)
			}
		}
		var all []string
		for _, s := range f.logs[p0] {
			all = append(all, string(s.Value))
		}
		want(t, "order of the partition", got, all)
		if len(s.of(first)) != 8 {
			t.Errorf("%d attempts, want 8", len(s.of(first)))
		}
	})
}

// TestKeysAtOnce: keys are handled at once, up to the limit, each in order.
func TestKeysAtOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFake(map[string]int{"orders": 2})
		f.write(numbered("orders", 1000, func(i int) string { return fmt.Sprint(i % 50) })...)
		var mu sync.Mutex
		now, most, busy := 0, 0, map[string]bool{}
		s := &script{do: func(_ context.Context, m *Message) error {
			mu.Lock()
			if busy[string(m.Key)] {
				t.Errorf("two messages of key %s at once", m.Key)
			}
			busy[string(m.Key)] = true
			now++
			most = max(most, now)
			mu.Unlock()
			time.Sleep(10 * time.Millisecond)
			mu.Lock()
			defer mu.Unlock()
			now--
			delete(busy, string(m.Key))
			return nil
		}}
		began := time.Now()
		run(t, f, Config{Concurrency: 20, CommitInterval: 10 * time.Millisecond}, s)
		for f.at(p0)+f.at(Partition{"orders", 1}) < 1000 {
			time.Sleep(time.Millisecond)
		}
		if took := time.Since(began); most != 20 || took > 550*time.Millisecond {
			t.Errorf("at most %d at once, all done after %v; want 20 and little more than 500ms", most, took)
		}
		last := map[string]string{}
		for _, r := range append(f.logs[p0], f.logs[Partition{"orders", 1}]...) {
			last[string(r.Value)] = string(r.Key)
		}
		newest := map[string]string{}
		for _, v := range s.values() {
			if key := last[v]; v < newest[key] {
				t.Errorf("key %s: %s after %s", key, v, newest[key])
			} else {
				newest[key] = v
			}
		}
	})
}

// TestMemoryIsBounded: messages that are read and not done stay within the limits; the partition pauses and goes on.
func TestMemoryIsBounded(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		cfg   Config
		limit int64
	}{
		"records":          {Config{MaxInFlight: 200}, 100 + 99},
		"bytes":            {Config{MaxInFlightBytes: 1000}, 125 + 99},
		"records, by key":  {Config{MaxInFlight: 200, Concurrency: 1}, 100 + 99},
		"ahead of the key": {Config{MaxAhead: 300, Policy: Policy{Mode: Ordered}}, 300 + 99},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				f := newFake(map[string]int{"orders": 1, "orders.g.retry": 1})
				f.write(numbered("orders", 3000, func(i int) string { return fmt.Sprintf("%04d", i) })...)
				c.cfg.Policy.Delays = []time.Duration{time.Hour}
				gate := make(chan struct{})
				s := &script{do: func(_ context.Context, m *Message) error {
					switch {
					case c.cfg.Policy.Mode == Ordered && string(m.Value) == "0000" && m.Attempt() == 1:
						return errBroken
					case c.cfg.Policy.Mode != Ordered:
						<-gate
					}
					return nil
				}}
				con, _ := run(t, f, c.cfg, s)
				synctest.Wait()
				read := f.next[p0]
				if read > c.limit || !f.paused[p0] {
					t.Errorf("read %d, want at most %d; paused: %v", read, c.limit, f.paused[p0])
				}
				if st := con.Status(); !st[0].Paused {
					t.Errorf("status %+v", st[0])
				}
				close(gate)
				pass(2 * time.Hour)
				if n := len(s.values()); n < 3000 {
					t.Errorf("handled %d of 3000", n)
				}
				if len(f.paused) > 0 || f.at(p0) != 3000 {
					t.Errorf("paused %v, committed %d", f.paused, f.at(p0))
				}
			})
		})
	}
}

// TestTimeout: a message's time is its context's deadline.
func TestTimeout(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFake(map[string]int{"orders": 1})
		f.write(rec("orders", "a", "slow"))
		s := &script{do: func(ctx context.Context, _ *Message) error { <-ctx.Done(); return ctx.Err() }}
		run(t, f, Config{Policy: Policy{HandleTimeout: time.Minute, Delays: []time.Duration{}}}, s)
		time.Sleep(time.Hour)
		if calls := s.of("slow"); len(calls) != 1 || calls[0].end.Sub(calls[0].at) != time.Minute {
			t.Errorf("calls %v", calls)
		}
		if ls := f.records(DefaultDeadLetterTopic); len(ls) != 1 || header(ls[0].Headers, "postrider-error-code") != CodeTimeout {
			t.Errorf("dead letters %v", ls)
		}
	})
}

// TestBatches: batches are in order and bounded; a message that is not reported as failed is done, and after any other
// error only a message that fails alone has failed.
func TestBatches(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFake(map[string]int{"orders": 1})
		f.write(numbered("orders", 95, func(int) string { return "" })...)
		var sizes []int
		var done, alone []string
		h := BatchFunc(func(_ context.Context, ms []*Message) error {
			failed := map[int]error{}
			for i, m := range ms {
				switch string(m.Value) {
				case "0003":
					failed[i] = Permanent(errBroken)
					continue
				case "0044":
					if len(ms) > 1 {
						return errBroken // and nothing was done
					}
					failed[i] = errBroken
				}
				if len(ms) == 1 {
					alone = append(alone, string(m.Value))
				}
			}
			if len(ms) > 1 {
				sizes = append(sizes, len(ms))
			}
			for i, m := range ms {
				if failed[i] == nil {
					done = append(done, string(m.Value))
				}
			}
			if len(failed) > 0 {
				return &BatchError{failed}
			}
			return nil
		})
		run(t, f, Config{Batch: 10, Policy: Policy{Delays: []time.Duration{time.Minute}}}, h)
		pass(time.Hour)
		want(t, "sizes", sizes, []int{10, 10, 10, 10, 10, 10, 10, 10, 5})
		want(t, "alone", alone, []string{"0040", "0041", "0042", "0043", "0044", "0045", "0046", "0047", "0048", "0049", "0044"})
		want(t, "dead letters", f.values(DefaultDeadLetterTopic), []string{"0003", "0044"})
		if len(done) != 93 || f.at(p0) != 95 {
			t.Errorf("%d done, committed %d", len(done), f.at(p0))
		}
	})
}

// TestBatchErrorsThatSayNothing: a BatchError is not believed when it names no message, or one outside the batch. Each
// message is tried alone, and none is done because of the error.
func TestBatchErrorsThatSayNothing(t *testing.T) {
	t.Parallel()
	for name, failed := range map[string]map[int]error{
		"none": nil, "no cause": {0: nil}, "beyond the batch": {2: errBroken}, "below it": {-1: errBroken}, "one right, one not": {1: errBroken, 7: errBroken},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				f := newFake(map[string]int{"orders": 1})
				f.write(numbered("orders", 2, func(int) string { return "" })...)
				var alone []string
				run(t, f, Config{Batch: 2, Policy: Policy{Delays: []time.Duration{}}}, BatchFunc(func(_ context.Context, ms []*Message) error {
					if len(ms) > 1 {
						return &BatchError{failed}
					}
					alone = append(alone, string(ms[0].Value))
					return &BatchError{}
				}))
				pass(time.Hour)
				want(t, "alone", alone, []string{"0000", "0001"})
				want(t, "dead letters", f.values(DefaultDeadLetterTopic), []string{"0000", "0001"})
			})
		})
	}
}

// TestMiddlewareOrder: the first is outermost, and a panic in it is a failure of the message.
func TestMiddlewareOrder(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFake(map[string]int{"orders": 1})
		f.write(rec("orders", "a", "x"))
		var seen []string
		around := func(name string) Middleware {
			return func(next Handler) Handler {
				return HandlerFunc(func(ctx context.Context, m *Message) error {
					seen = append(seen, name)
					err := next.Handle(ctx, m)
					seen = append(seen, "/"+name)
					if name == "1" {
						panic(err)
					}
					return err
				})
			}
		}
		run(t, f, Config{Middleware: []Middleware{around("1"), around("2")}}, HandlerFunc(func(context.Context, *Message) error { return Permanent(errBroken) }))
		pass(time.Second)
		want(t, "order", seen, []string{"1", "2", "/2", "/1"})
		want(t, "dead letters", f.values(DefaultDeadLetterTopic), []string{"x"}) // the panic's value has its class
	})
}
