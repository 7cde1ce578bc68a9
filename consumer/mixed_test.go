package consumer

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"
)

// TestMixed: with poison, transient and slow messages, 5 % each, every one ends where it should, and no delay is cut
// short or more than a second late.
func TestMixed(t *testing.T) {
	t.Parallel()
	for _, mode := range []Mode{Tiers, Ordered, Blocking} {
		t.Run(fmt.Sprint(mode), func(t *testing.T) {
			t.Parallel()
			inBothLanes(t, 8, func(t *testing.T, concurrency int) { mixed(t, mode, concurrency) })
		})
	}
}

func mixed(t *testing.T, mode Mode, concurrency int) {
	const n = 2000
	kind := func(i int) string {
		switch i % 20 {
		case 3:
			return "poison"
		case 9:
			return "transient"
		case 15:
			return "slow"
		}
		return "good"
	}
	f := newFake(map[string]int{"orders": 3})
	var rs []Record
	for i := range n {
		rs = append(rs, rec("orders", fmt.Sprint("k", i%101), fmt.Sprintf("%s-%04d", kind(i), i)))
	}
	f.write(rs...)
	delays := []time.Duration{time.Second, 10 * time.Second}
	s := &script{do: func(_ context.Context, m *Message) error {
		switch string(m.Value[:len(m.Value)-5]) {
		case "poison":
			return Permanent(errBroken)
		case "transient":
			if m.Attempt() < 3 {
				return errBroken
			}
		case "slow":
			time.Sleep(200 * time.Millisecond)
		}
		return nil
	}}
	_, stop := run(t, f, Config{Concurrency: concurrency, Policy: Policy{Mode: mode, Delays: delays}}, s)
	time.Sleep(time.Hour)
	if err := stop(); err != nil {
		t.Error(err)
	}
	letters := map[string]int{}
	for _, v := range f.values(DefaultDeadLetterTopic) {
		letters[v]++
	}
	for i := range n {
		v := fmt.Sprintf("%s-%04d", kind(i), i)
		calls := s.of(v)
		attempts, dead := 1, 0
		switch kind(i) {
		case "poison":
			dead = 1
		case "transient":
			attempts = 3
		}
		if len(calls) != attempts || letters[v] != dead {
			t.Fatalf("%s: %d attempts, %d letters; want %d, %d", v, len(calls), letters[v], attempts, dead)
		}
		for a := 1; a < len(calls); a++ {
			waited := calls[a].at.Sub(calls[a-1].end)
			if waited < delays[a-1] {
				t.Errorf("%s: attempt %d came after %v, early", v, a+1, waited)
			}
			if limit := delays[a-1] + time.Second; waited > limit && (mode != Ordered || concurrency > 0) { // one at a time, it waits for others
				t.Errorf("%s: attempt %d came after %v, late", v, a+1, waited)
			}
		}
	}
	if len(letters) != n/20 {
		t.Errorf("%d dead letters", len(letters))
	}
	for id := range 3 {
		if p := (Partition{"orders", int32(id)}); f.at(p) != int64(len(f.logs[p])) {
			t.Errorf("%v: committed %d of %d", p, f.at(p), len(f.logs[p]))
		}
	}
}

// TestNothingIsLostProperty: whatever fails, however partitions come and go, no commit passes a message that is neither
// handled nor written elsewhere.
func TestNothingIsLostProperty(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		mode := rapid.SampledFrom([]Mode{Tiers, Ordered, Blocking}).Draw(rt, "mode")
		concurrency := rapid.IntRange(0, 5).Draw(rt, "concurrency")
		seed := rapid.Uint64().Draw(rt, "seed")
		steps := rapid.SliceOfN(rapid.IntRange(0, 5), 1, 12).Draw(rt, "steps")
		problem := ""
		synctest.Test(t, func(t *testing.T) {
			f := newFake(map[string]int{"orders": 2})
			f.fetch = 7
			r := rand.New(rand.NewPCG(seed, 1))
			settled := map[string]bool{} // by value: handled, or acknowledged by another topic
			s := &script{do: func(ctx context.Context, m *Message) error {
				f.mu.Lock()
				what := r.IntN(10)
				f.mu.Unlock()
				time.Sleep(time.Duration(what) * 10 * time.Millisecond)
				if what == 0 {
					return Permanent(errBroken)
				}
				if what < 3 || ctx.Err() != nil {
					return errBroken
				}
				f.mu.Lock()
				settled[string(m.Value)] = true
				f.mu.Unlock()
				return nil
			}}
			f.setRefuse(func(_ context.Context, rec Record) error {
				f.mu.Lock()
				defer f.mu.Unlock()
				switch r.IntN(4) {
				case 0:
					return errBroken
				case 1: // written, but the answer was lost
					p := Partition{rec.Topic, 0}
					f.logs[p] = append(f.logs[p], stored{rec, time.Now()})
					return errBroken
				}
				settled[string(rec.Value)] = true
				return nil
			})
			check := func() {
				f.mu.Lock()
				defer f.mu.Unlock()
				for p, at := range f.committed {
					for i, rec := range f.logs[p][:at] {
						if !settled[string(rec.Value)] && problem == "" {
							problem = fmt.Sprintf("%v is committed up to %d, and %s at %d is nowhere", p, at, rec.Value, i)
						}
					}
				}
			}
			_, stop := run(t, f, Config{Concurrency: concurrency, CommitInterval: 50 * time.Millisecond, RevokeTimeout: 30 * time.Millisecond, StopTimeout: 20 * time.Millisecond,
				Policy: Policy{Mode: mode, Delays: []time.Duration{100 * time.Millisecond, time.Second}, Breaker: Breaker{Off: true}}}, s)
			p := []Partition{{"orders", 0}, {"orders", 1}}
			n := 0
			for _, step := range steps {
				switch step {
				case 0, 1:
					for range 20 {
						f.write(rec("orders", fmt.Sprint(n%7), fmt.Sprintf("v%d", n)))
						n++
					}
				case 2:
					f.revoke(p[0])
					check()
					f.assign(p[0])
				case 3:
					f.lose(p[1])
					f.assign(p[1])
				default:
					time.Sleep(time.Duration(step) * 77 * time.Millisecond)
				}
				check()
			}
			_ = stop()
			check()
			time.Sleep(time.Second) // handlers of lost partitions end
		})
		if problem != "" {
			rt.Fatal(problem)
		}
	})
}
