package consumer

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/postrider/postrider/message"
)

// poison fails for good at the values that begin with p.
func poison() *script {
	return &script{do: func(_ context.Context, m *Message) error {
		if m.Value[0] == 'p' {
			return Permanent(errBroken)
		}
		return nil
	}}
}

// TestNowhereToGo: while neither a retry topic nor the dead-letter topic takes a message its offset is not committed,
// the partition says so, and other partitions go on; afterwards it goes on by itself.
func TestNowhereToGo(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		refuse  func(ctx context.Context, r Record) error
		mention string
	}{
		"refused": {func(context.Context, Record) error { return errors.New("NOT_AUTHORISED") }, "NOT_AUTHORISED"},
		"silent":  {func(ctx context.Context, _ Record) error { <-ctx.Done(); return ctx.Err() }, "acknowledged"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inBothLanes(t, 2, func(t *testing.T, concurrency int) {
				f := newFake(map[string]int{"orders": 2})
				f.write(numbered("orders", 40, func(i int) string { return fmt.Sprint(i) })...)
				f.logs[p0][3].Value = []byte("poison")
				there := atomic.Bool{}
				waiting := make(chan struct{})
				f.setRefuse(func(ctx context.Context, r Record) error {
					if there.Load() {
						return nil
					}
					ctx, cancel := context.WithCancel(ctx)
					defer cancel()
					go func() {
						select {
						case <-waiting:
						case <-ctx.Done():
						}
						cancel()
					}()
					return c.refuse(ctx, r)
				})
				con, stop := run(t, f, Config{Concurrency: concurrency}, poison())
				time.Sleep(time.Minute)
				if f.at(p0) != 3 {
					t.Errorf("committed %d, the message at 3 is nowhere", f.at(p0))
				}
				p1 := Partition{"orders", 1}
				if f.at(p1) != int64(len(f.logs[p1])) {
					t.Errorf("the other partition stands at %d", f.at(p1))
				}
				for _, p := range con.Status() {
					if p.Partition == p0 && (!strings.Contains(p.Standing, c.mention) || !strings.Contains(p.Standing, DefaultDeadLetterTopic) || p.Since.IsZero()) {
						t.Errorf("status %+v", p)
					}
				}
				there.Store(true)
				close(waiting)
				time.Sleep(time.Minute)
				want(t, "dead letters", f.values(DefaultDeadLetterTopic), []string{"poison"})
				for _, p := range con.Status() {
					if p.Standing != "" {
						t.Errorf("status %+v", p)
					}
				}
				if err := stop(); err != nil {
					t.Error(err)
				}
				if f.at(p0) != int64(len(f.logs[p0])) {
					t.Errorf("committed %d of %d", f.at(p0), len(f.logs[p0]))
				}
			})
		})
	}
}

// TestStandsForEach: a partition stands for as long as one of its messages cannot leave, whatever others do.
func TestStandsForEach(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFake(map[string]int{"orders": 1})
		there := atomic.Bool{}
		began := time.Now()
		f.setRefuse(func(_ context.Context, r Record) error {
			if string(r.Value) == "p1" && !there.Load() || time.Since(began) < 20*time.Second {
				return errBroken
			}
			return nil
		})
		f.write(rec("orders", "a", "p1"))
		c, _ := run(t, f, Config{Concurrency: 2}, poison())
		pass(3 * time.Second)
		f.write(rec("orders", "b", "p2"))
		for range 600 {
			pass(100 * time.Millisecond)
			if p := c.Status()[0]; p.Standing == "" || !p.Since.Equal(began) {
				t.Fatalf("after %v, with %d dead letters: status %+v", time.Since(began), len(f.values(DefaultDeadLetterTopic)), p)
			}
		}
		want(t, "dead letters", f.values(DefaultDeadLetterTopic), []string{"p2"})
		there.Store(true)
		pass(time.Minute)
		if p := c.Status()[0]; p.Standing != "" || !p.Since.IsZero() {
			t.Errorf("status %+v", p)
		}
	})
}

// TestStoppedBeforeItLeft: a message that could not leave when the consumer stops comes again.
func TestStoppedBeforeItLeft(t *testing.T) {
	t.Parallel()
	inBothLanes(t, 2, func(t *testing.T, concurrency int) {
		f := newFake(map[string]int{"orders": 1})
		f.write(rec("orders", "a", "1"), rec("orders", "b", "poison"), rec("orders", "c", "3"))
		f.setRefuse(func(ctx context.Context, _ Record) error { <-ctx.Done(); return ctx.Err() })
		_, stop := run(t, f, Config{Concurrency: concurrency}, poison())
		time.Sleep(time.Second)
		_ = stop()
		if f.at(p0) != 1 || len(f.records(DefaultDeadLetterTopic)) != 0 {
			t.Errorf("committed %d", f.at(p0))
		}
	})
}

// TestTooLargeForTheRetryTopic: a message that its retry topic does not take, because what is noted about it makes it
// larger, waits in its own topic for as long, and is handled when the cause is gone.
func TestTooLargeForTheRetryTopic(t *testing.T) {
	t.Parallel()
	inBothLanes(t, 3, func(t *testing.T, concurrency int) {
		f := newFake(map[string]int{"orders": 1})
		f.write(rec("orders", "a", "large"), rec("orders", "a", "next"))
		f.setRefuse(func(_ context.Context, r Record) error {
			if r.Topic != DefaultDeadLetterTopic {
				return fmt.Errorf("%w: x", ErrTooLarge)
			}
			return nil
		})
		began, tries := time.Now(), []time.Duration{}
		s := &script{do: func(_ context.Context, m *Message) error {
			if string(m.Value) != "large" {
				return nil
			}
			if tries = append(tries, time.Since(began).Round(time.Second)); len(tries) < 4 {
				return errBroken
			}
			return nil
		}}
		run(t, f, Config{Concurrency: concurrency, Policy: Policy{Delays: []time.Duration{time.Second, 10 * time.Second, 30 * time.Second}}}, s)
		pass(2 * time.Minute)
		if want := []time.Duration{0, time.Second, 11 * time.Second, 41 * time.Second}; !slices.Equal(tries, want) {
			t.Errorf("tried after %v, want %v", tries, want)
		}
		if n := len(f.records(DefaultDeadLetterTopic)); n != 0 || f.at(p0) != 2 || len(s.values()) != 5 {
			t.Errorf("%d dead letters, committed %d, handled %v", n, f.at(p0), s.values())
		}
	})
}

// TestTooLargeForTheDeadLetterTopic: a dead letter that does not fit loses its stack and the other dialects, then the
// value, then key and headers of the message. What is left out is referred to.
func TestTooLargeForTheDeadLetterTopic(t *testing.T) {
	t.Parallel()
	for fits, takes := range map[fit]func(r Record) bool{
		whole:        func(Record) bool { return true },
		brief:        func(r Record) bool { return header(r.Headers, message.HeaderErrorStack) == "" },
		withoutValue: func(r Record) bool { return r.Value == nil },
		bare:         func(r Record) bool { return r.Key == nil },
	} {
		synctest.Test(t, func(t *testing.T) {
			f := newFake(map[string]int{"orders": 1})
			large := rec("orders", "a", "large")
			large.Headers = append(large.Headers, message.Header{Name: "tenant", Value: []byte("7")}, message.Header{Name: message.HeaderEventID, Value: []byte("an id")})
			f.write(large)
			tries := 0
			f.setRefuse(func(_ context.Context, r Record) error {
				if tries++; !takes(r) {
					time.Sleep(publishPatience + time.Second) // the partition says meanwhile that it stands
					return fmt.Errorf("%w: x", ErrTooLarge)
				}
				return nil
			})
			run(t, f, Config{Policy: Policy{Delays: []time.Duration{}}}, HandlerFunc(func(context.Context, *Message) error { panic(strings.Repeat("x", 4000)) }))
			time.Sleep(time.Minute)
			ls := f.records(DefaultDeadLetterTopic)
			if len(ls) != 1 || f.at(p0) != 1 || tries != int(fits)+1 {
				t.Fatalf("%d: %d dead letters, committed %d after %d tries", fits, len(ls), f.at(p0), tries)
			}
			l := ls[0]
			if header(l.Headers, message.HeaderOriginTopic) != "orders" || header(l.Headers, message.HeaderEventID) != "an id" {
				t.Errorf("%d: where it came from is lost: %v", fits, l.Headers)
			}
			if stack, short := header(l.Headers, message.HeaderErrorStack) != "", len(header(l.Headers, message.HeaderErrorMessage)) <= maxRetryMessage; stack != (fits == whole) || short != (fits > whole) {
				t.Errorf("%d: stack %v, short message %v", fits, stack, short)
			}
			if left := fits >= withoutValue; left != (l.Value == nil) || left != (header(l.Headers, message.HeaderPayload) == message.PayloadReference) || left != (header(l.Headers, message.HeaderPayloadBytes) == "5") {
				t.Errorf("%d: value %q, headers %v", fits, l.Value, l.Headers)
			}
			if left := fits == bare; left != (l.Key == nil) || left != (header(l.Headers, message.HeaderKey) == message.KeyReference) || left != (header(l.Headers, "tenant") == "") {
				t.Errorf("%d: key %q, headers %v", fits, l.Key, l.Headers)
			}
		})
	}
}

// TestStopLetsHandlersEnd: Run waits for messages in hand, takes up no new ones, and commits.
func TestStopLetsHandlersEnd(t *testing.T) {
	t.Parallel()
	inBothLanes(t, 2, func(t *testing.T, concurrency int) {
		f := newFake(map[string]int{"orders": 1})
		f.write(numbered("orders", 100, func(i int) string { return fmt.Sprint(i) })...)
		s := &script{do: func(ctx context.Context, _ *Message) error {
			time.Sleep(10 * time.Second)
			return ctx.Err()
		}}
		_, stop := run(t, f, Config{Concurrency: concurrency}, s)
		time.Sleep(15 * time.Second)
		began := time.Now()
		if err := stop(); err != nil {
			t.Error(err)
		}
		if took := time.Since(began); took != 5*time.Second {
			t.Errorf("stopping took %v, want 5s", took)
		}
		if n := int64(len(s.values())); f.at(p0) != n || n != int64(2*max(concurrency, 1)) || !f.closed {
			t.Errorf("%d handled, committed %d", n, f.at(p0))
		}
	})
}

// TestRevokedWhileStopping: a partition that is revoked while Run ends is not given away before its handler has ended and
// its position is committed, and nothing of it is committed afterwards.
func TestRevokedWhileStopping(t *testing.T) {
	t.Parallel()
	for _, lost := range []bool{false, true} {
		t.Run(fmt.Sprint(lost), func(t *testing.T) {
			t.Parallel()
			inBothLanes(t, 2, func(t *testing.T, concurrency int) {
				f := newFake(map[string]int{"orders": 1})
				f.write(rec("orders", "a", "1"), rec("orders", "a", "2"))
				s := &script{do: func(ctx context.Context, _ *Message) error {
					select {
					case <-time.After(5 * time.Second):
					case <-ctx.Done():
					}
					return ctx.Err()
				}}
				_, stop := run(t, f, Config{Concurrency: concurrency}, s)
				time.Sleep(time.Second)
				stopped := make(chan error, 1)
				go func() { stopped <- stop() }()
				synctest.Wait()
				began, handled, commits := time.Now(), 1, 1
				if lost {
					f.lose(p0)
					synctest.Wait()
					handled, commits = 1, 0
				} else if f.revoke(p0); time.Since(began) != 4*time.Second {
					t.Errorf("it was given away after %v, its handler ends after 4s", time.Since(began))
				}
				if len(s.values()) != handled || len(f.commits) != commits || f.at(p0) != int64(commits) {
					t.Errorf("given away with %d of %d handled, commits %v", len(s.values()), handled, f.commits)
				}
				if err := <-stopped; err != nil {
					t.Error(err)
				}
				if len(f.commits) != commits {
					t.Errorf("commits %v, the last after it was given away", f.commits)
				}
			})
		})
	}
}

// TestStopEndsContexts: a handler that takes too long is told to end, and its message is not done.
func TestStopEndsContexts(t *testing.T) {
	t.Parallel()
	for _, obeys := range []bool{true, false} {
		t.Run(fmt.Sprint(obeys), func(t *testing.T) {
			t.Parallel()
			inBothLanes(t, 2, func(t *testing.T, concurrency int) {
				f := newFake(map[string]int{"orders": 1})
				f.write(rec("orders", "a", "1"), rec("orders", "b", "2"))
				s := &script{do: func(ctx context.Context, m *Message) error {
					if string(m.Value) == "2" {
						if <-ctx.Done(); !obeys {
							time.Sleep(time.Minute)
							return nil
						}
						return ctx.Err()
					}
					return nil
				}}
				_, stop := run(t, f, Config{Concurrency: concurrency, StopTimeout: 5 * time.Second}, s)
				time.Sleep(time.Second)
				began := time.Now()
				if err := stop(); (err == nil) != obeys {
					t.Errorf("Run: %v", err)
				}
				if took := time.Since(began); took > 5*time.Second+grace || f.at(p0) != 1 || len(f.records("orders.g.retry.1s")) > 0 {
					t.Errorf("took %v, committed %d", took, f.at(p0))
				}
				time.Sleep(2 * time.Minute)
			})
		})
	}
}

// TestRevoked: a partition that is given away ends the messages that it began, with all before them, and commits; no
// message is handled twice or left out.
func TestRevoked(t *testing.T) {
	t.Parallel()
	inBothLanes(t, 7, func(t *testing.T, concurrency int) {
		f := newFake(map[string]int{"orders": 2})
		f.write(numbered("orders", 3000, func(i int) string { return fmt.Sprint(i % 13) })...)
		s := &script{do: func(context.Context, *Message) error { time.Sleep(7 * time.Millisecond); return nil }}
		run(t, f, Config{Concurrency: concurrency}, s)
		for range 10 {
			time.Sleep(150 * time.Millisecond)
			f.revoke(p0)
			if st := f.at(p0); f.next[p0] != 0 || st == 0 {
				t.Errorf("committed %d", st)
			}
			time.Sleep(20 * time.Millisecond)
			f.assign(p0)
		}
		time.Sleep(time.Minute)
		seen := map[string]int{}
		for _, v := range s.values() {
			seen[v]++
		}
		for v, n := range seen {
			if n != 1 {
				t.Errorf("%s was handled %d times", v, n)
			}
		}
		if len(seen) != 3000 {
			t.Errorf("%d of 3000 were handled", len(seen))
		}
	})
}

// TestRevokedTooSlow: a rebalance waits for RevokeTimeout and no longer, and messages that did not end are not
// committed.
func TestRevokedTooSlow(t *testing.T) {
	t.Parallel()
	inBothLanes(t, 2, func(t *testing.T, concurrency int) {
		f := newFake(map[string]int{"orders": 1})
		f.write(rec("orders", "a", "1"), rec("orders", "b", "2"), rec("orders", "c", "3"))
		s := &script{do: func(ctx context.Context, m *Message) error {
			if string(m.Value) == "2" {
				<-ctx.Done()
				return ctx.Err()
			}
			return nil
		}}
		run(t, f, Config{Concurrency: concurrency, RevokeTimeout: 3 * time.Second}, s)
		time.Sleep(500 * time.Millisecond)
		began := time.Now()
		f.revoke(p0)
		if took := time.Since(began); took != 3*time.Second || f.at(p0) != 1 {
			t.Errorf("took %v, committed %d", took, f.at(p0))
		}
	})
}

// TestLost: nothing of a lost partition is committed, and its handlers are told.
func TestLost(t *testing.T) {
	t.Parallel()
	inBothLanes(t, 2, func(t *testing.T, concurrency int) {
		f := newFake(map[string]int{"orders": 1})
		f.write(rec("orders", "a", "1"), rec("orders", "b", "2"))
		told := false
		s := &script{do: func(ctx context.Context, m *Message) error {
			if string(m.Value) == "2" {
				<-ctx.Done()
				told = true
			}
			return nil // as if it had been done
		}}
		run(t, f, Config{Concurrency: concurrency, CommitInterval: time.Hour}, s)
		synctest.Wait()
		f.lose(p0)
		synctest.Wait()
		if !told || len(f.commits) > 0 {
			t.Errorf("told %v, commits %v", told, f.commits)
		}
	})
}

// TestCommitFails: a commit that fails is made again.
func TestCommitFails(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFake(map[string]int{"orders": 1})
		f.write(rec("orders", "a", "1"))
		fails := 3
		f.refuseCommit = func() error {
			if fails--; fails >= 0 {
				return errBroken
			}
			return nil
		}
		run(t, f, Config{}, &script{})
		time.Sleep(3500 * time.Millisecond)
		if f.at(p0) != 0 {
			t.Errorf("committed %d", f.at(p0))
		}
		time.Sleep(time.Second)
		if f.at(p0) != 1 {
			t.Errorf("committed %d", f.at(p0))
		}
	})
}
