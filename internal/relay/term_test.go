package relay

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/postrider/postrider/retry"
)

// running is a relay that leads, or waits to, over a memory.
type running struct {
	*Relay
	m    *memory
	pub  *fakePublisher
	t    *testing.T
	stop func()
}

// run begins a relay, in a bubble of synctest, and ends it with the test.
func run(t *testing.T, m *memory, pub *fakePublisher, change func(*Config)) *running {
	t.Helper()
	r := testRelay(t, func(c *Config) {
		c.Store, c.Publisher = m, pub
		c.TopicSettings = ForAll(TopicSettings{Retry: retry.Policy{MaxAttempts: 3, Base: time.Second, Max: 2 * time.Second}})
		if change != nil {
			change(c)
		}
	})
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	wg.Go(func() { r.runLeader(ctx) })
	wg.Go(func() { r.loop(ctx, "dead_letter", r.sendLetters, r.letters) })
	x := &running{Relay: r, m: m, pub: pub, t: t, stop: func() { cancel(); wg.Wait() }}
	t.Cleanup(func() {
		x.stop()
		if err := m.check(); err != nil {
			t.Error(err)
		}
	})
	return x
}

// until waits for a condition; it fails the test when that takes an hour of the bubble's time.
func until(t *testing.T, what string, is func() bool) {
	t.Helper()
	began := time.Now()
	blocked := func() { synctest.Wait(); touch() }
	for blocked(); !is(); blocked() {
		if time.Since(began) > time.Hour {
			t.Fatalf("%s: not within an hour", what)
		}
		touch()
		time.Sleep(5 * time.Millisecond)
	}
}

func (x *running) done() {
	x.t.Helper()
	until(x.t, "all is done", func() bool { return x.m.waiting() == 0 })
}

// failing gives the events of these ids an outcome, while it says so.
func failing(class Class, ids ...int64) func(context.Context, Message) Outcome {
	return func(_ context.Context, m Message) Outcome {
		if slices.Contains(ids, int64(m.ID.EventID[15])) && !m.ID.Letter {
			return Outcome{Class: class, Code: "X", Message: "why"}
		}
		return Outcome{Class: Delivered}
	}
}

func bubble(t *testing.T, test func(*testing.T, *memory, *fakePublisher)) {
	t.Helper()
	t.Parallel()
	synctest.Test(t, func(t *testing.T) { test(t, newMemory(), &fakePublisher{}) })
}

func TestTermSendsAndSettles(t *testing.T) {
	bubble(t, func(t *testing.T, m *memory, pub *fakePublisher) {
		x := run(t, m, pub, nil)
		m.write(keyed(0, "a"), unkeyed(0), keyed(0, "a"))
		x.done()
		if got := pub.arrived(); !slices.Equal(got, []int64{1, 2, 3}) {
			t.Errorf("arrived %v", got)
		}
		if m.position != 3 || !slices.Equal(m.events, Ranges{{1, 3}}) || len(m.gaps) != 0 {
			t.Errorf("position %d, events %v, gaps %v", m.position, m.events, m.gaps)
		}
		if got := testutil.ToFloat64(x.metrics.outcomes.WithLabelValues("delivered")); got != 3 {
			t.Errorf("%v deliveries are counted", got)
		}
		if got := testutil.ToFloat64(x.metrics.inFlight); got != 0 {
			t.Errorf("%v events are counted as in flight afterwards", got)
		}
		if testutil.ToFloat64(x.metrics.leading) != 1 {
			t.Error("the gauge does not say that it leads")
		}
		x.stop()
		if !m.terms[0].ended || m.leader != nil || testutil.ToFloat64(x.metrics.leading) != 0 {
			t.Errorf("it stopped without handing over: %+v, leader %v", m.terms[0], m.leader)
		}
	})
}

// TestLateCommits: an event that is committed below the position is sent when it comes. An event that is rolled back is
// forgotten.
func TestLateCommits(t *testing.T) {
	bubble(t, func(t *testing.T, m *memory, pub *fakePublisher) {
		x := run(t, m, pub, nil)
		late, never, prepared := m.begin(), m.begin(), m.begin()
		first := late.draw()
		never.insert(never.draw(), unkeyed(0), 0)
		prepared.insert(prepared.draw(), unkeyed(0), 0)
		m.write(unkeyed(0), unkeyed(0))
		until(t, "the others go", func() bool { return len(pub.arrived()) == 2 })
		if !slices.Equal(m.gaps, Ranges{{1, 3}}) {
			t.Errorf("gaps %v", m.gaps)
		}
		late.insert(first, keyed(0, "a"), 0)
		prepared.prepare()
		time.Sleep(10 * time.Second)
		late.end(true)
		never.end(false)
		x.done()
		time.Sleep(10 * time.Second)
		prepared.end(true)
		x.done()
		until(t, "the gap is forgotten", func() bool { return slices.Equal(m.forgotten, Ranges{{2, 2}}) })
		if got := pub.arrived(); !slices.Equal(got, []int64{4, 5, 1, 3}) || len(m.gaps) != 0 {
			t.Errorf("arrived %v, gaps %v", got, m.gaps)
		}
	})
}

// TestManyGapsAreWrittenSeldom: while there are few gaps, a receipt has them all; else they follow from earlier receipts.
func TestManyGapsAreWrittenSeldom(t *testing.T) {
	bubble(t, func(t *testing.T, m *memory, pub *fakePublisher) {
		x := run(t, m, pub, func(c *Config) { c.BatchSize = 1 })
		open := m.begin()
		for range manyGaps + gapsEvery + 50 {
			open.draw()
			m.write(unkeyed(0))
		}
		x.done()
		with, without := 0, 0
		for i := range m.receipts {
			if m.receipts[i].Gaps != nil {
				with++
			} else {
				without++
			}
		}
		if with != manyGaps+1 || without != gapsEvery+49 {
			t.Errorf("%d receipts have all gaps, %d have none", with, without)
		}
		open.end(false)
		until(t, "the gaps are forgotten", func() bool { return len(m.gaps) == 0 })
	})
}

// TestTakeover: a standby leads at once when the leader hands over, and when its session is gone.
func TestTakeover(t *testing.T) {
	bubble(t, func(t *testing.T, m *memory, pub *fakePublisher) {
		first, second := run(t, m, pub, nil), run(t, m, pub, nil)
		time.Sleep(time.Second)
		leads := func(r *running) bool { return testutil.ToFloat64(r.metrics.leading) == 1 }
		if leads(first) == leads(second) || len(m.terms) != 1 {
			t.Fatalf("%d terms; the first leads: %v, the second: %v", len(m.terms), leads(first), leads(second))
		}
		if leads(second) {
			first, second = second, first
		}
		m.write(keyed(0, "a"))
		first.done()
		first.stop()
		time.Sleep(standbyPause)
		synctest.Wait()
		if !leads(second) || len(m.terms) != 2 || m.leads[1].began.Deaths != 0 {
			t.Errorf("%d terms, the second leads: %v", len(m.terms), leads(second))
		}
		m.cut(true)
		m.write(keyed(0, "a"))
		second.done()
		if len(m.terms) != 3 || m.leads[2].began.Deaths != 0 {
			t.Errorf("%d terms, %d deaths: a process that leads again has not died", len(m.terms), m.leads[2].began.Deaths)
		}
		if got := pub.arrived(); !slices.Equal(got, []int64{1, 2}) {
			t.Errorf("arrived %v", got)
		}
	})
}

// TestLostInTheMiddleOfABatch: nothing is settled for a term that is over. Events that were acknowledged are remembered, and
// sent again by the next term.
func TestLostInTheMiddleOfABatch(t *testing.T) {
	for name, told := range map[string]bool{"told": true, "not told": false} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, m *memory, pub *fakePublisher) {
				cut := false
				pub.outcome = func(ctx context.Context, msg Message) Outcome {
					if msg.ID.EventID[15] == 2 && !cut {
						cut = true
						m.cut(told)
						if told {
							<-ctx.Done()
							return Outcome{Class: Infrastructure, Code: "X", Partitions: 1}
						}
					}
					return Outcome{Class: Delivered}
				}
				m.write(keyed(0, "a"), keyed(0, "b"), keyed(0, "c"))
				x := run(t, m, pub, nil)
				x.done()
				want := []int64{1, 2, 3}
				if told {
					want = []int64{1, 3}
				}
				if got := idsOf(pub.remembered); !slices.Equal(got, want) {
					t.Errorf("remembered %v, want %v", got, want)
				}
				if got := pub.arrived(); !slices.Equal(got, []int64{1, 2, 3, 1, 2, 3}) || len(m.receipts) != 1 || len(m.terms) != 2 {
					t.Errorf("arrived %v in %d terms, with %d receipts", got, len(m.terms), len(m.receipts))
				}
			})
		})
	}
}

// TestFailedSettlementEndsTheTerm at once, whether it was written or not: nothing more is sent that would have no receipt.
func TestFailedSettlementEndsTheTerm(t *testing.T) {
	for name, written := range map[string]bool{"written": true, "not written": false} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, m *memory, pub *fakePublisher) {
				failed := false
				once := func() error {
					if !failed {
						failed = true
						return errTest
					}
					return nil
				}
				if written {
					m.unanswered = once
				} else {
					m.fail = func(call string) error {
						if call == "settle" {
							return once()
						}
						return nil
					}
				}
				pub.outcome = func(context.Context, Message) Outcome {
					time.Sleep(time.Millisecond) // meanwhile the settler has its answer
					return Outcome{Class: Delivered}
				}
				m.write(slices.Repeat([]Event{unkeyed(0)}, 100)...)
				x := run(t, m, pub, func(c *Config) { c.BatchSize = 10 })
				x.done()
				want := slices.Concat(seq(1, 10), seq(1, 100))
				if written {
					want = seq(1, 100)
				}
				// A batch that was read ahead may be on its way when the first settlement fails.
				got := pub.arrived()
				if extra := len(got) - len(want); extra < 0 || extra > 20 || len(m.terms) != 2 {
					t.Errorf("%d events arrived in %d terms, want %d", len(got), len(m.terms), len(want))
				}
				if got := idsOf(pub.remembered); len(got) < 10 || !slices.Equal(got[:10], seq(1, 10)) {
					t.Errorf("remembered %v", got)
				}
			})
		})
	}
}

func seq(from, to int64) (ids []int64) {
	for id := from; id <= to; id++ {
		ids = append(ids, id)
	}
	return ids
}

// TestErrorsEndTheTerm: each call may fail; the next term goes on, and nothing is lost.
func TestErrorsEndTheTerm(t *testing.T) {
	for _, call := range []string{"lead", "read", "look", "settle", "due", "take", "hold ids", "skips", "letters"} {
		t.Run(call, func(t *testing.T) {
			bubble(t, func(t *testing.T, m *memory, pub *fakePublisher) {
				failures := 0
				m.fail = func(c string) error {
					if c == call && failures < 3 {
						failures++
						return errTest
					}
					return nil
				}
				var mu sync.Mutex
				tries := map[byte]int{}
				pub.outcome = func(_ context.Context, msg Message) Outcome {
					mu.Lock()
					defer mu.Unlock()
					if tries[msg.ID.EventID[15]]++; tries[msg.ID.EventID[15]] <= 4 && msg.ID.EventID[15] == 2 {
						return Outcome{Class: Record, Code: "X"}
					}
					return Outcome{Class: Delivered}
				}
				x := run(t, m, pub, nil)
				open := m.begin()
				open.draw()
				m.write(keyed(0, "a"), with(keyed(0, "b"), unencodable))
				until(t, "it fails three times", func() bool { return failures == 3 })
				open.end(false)
				x.done()
				until(t, "the letter goes", func() bool { return m.state(3) == DeadLettered })
				until(t, "the gap is forgotten", func() bool { return len(m.gaps) == 0 })
			})
		})
	}
}

// TestNothingIsSentWithoutBeingSure that no other leads.
func TestNothingIsSentWithoutBeingSure(t *testing.T) {
	bubble(t, func(t *testing.T, m *memory, pub *fakePublisher) {
		x := run(t, m, pub, nil)
		time.Sleep(time.Second)
		m.mu.Lock()
		m.leader.unsure = true
		m.mu.Unlock()
		m.write(keyed(0, "a"))
		time.Sleep(time.Minute)
		if got := pub.arrived(); len(got) > 0 {
			t.Errorf("arrived %v", got)
		}
		m.mu.Lock()
		m.leader.unsure = false
		m.mu.Unlock()
		x.done()
	})
}

// TestLostWhileUnsure: the wait for the session ends with the session.
func TestLostWhileUnsure(t *testing.T) {
	bubble(t, func(t *testing.T, m *memory, pub *fakePublisher) {
		x := run(t, m, pub, nil)
		time.Sleep(time.Second)
		m.mu.Lock()
		m.leader.unsure = true
		m.mu.Unlock()
		m.write(keyed(0, "a"))
		time.Sleep(time.Second)
		m.cut(true)
		x.done()
		if len(m.terms) != 2 {
			t.Errorf("%d terms", len(m.terms))
		}
	})
}

// TestStopFinishesTheBatchInHand within the bounds of publishing, and settles it.
func TestStopFinishesTheBatchInHand(t *testing.T) {
	bubble(t, func(t *testing.T, m *memory, pub *fakePublisher) {
		began := make(chan struct{}, 9)
		pub.outcome = func(ctx context.Context, _ Message) Outcome {
			began <- struct{}{}
			<-ctx.Done()
			return Outcome{Class: Infrastructure, Code: "X"}
		}
		m.write(keyed(0, "a"))
		x := run(t, m, pub, nil)
		<-began
		start := time.Now()
		x.stop()
		if took := time.Since(start); took != 10*time.Second {
			t.Errorf("it took %v, want the publish timeout of 10 s", took)
		}
		if m.state(1) != Parked || !m.terms[0].ended {
			t.Errorf("event 1 is %s, the term %+v", m.state(1), m.terms[0])
		}
	})
}

// TestStopWithoutBrokers: a relay that is told to stop does not wait for a broker.
func TestStopWithoutBrokers(t *testing.T) {
	for name, parked := range map[string]bool{"of the log": false, "behind a hold": true} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, m *memory, pub *fakePublisher) {
				away := !parked
				pub.ping = func() error {
					if away {
						return errTest
					}
					return nil
				}
				pub.outcome = infrastructure
				m.write(keyed(0, "a"))
				x := run(t, m, pub, nil)
				if parked {
					until(t, "it is parked", func() bool { return m.state(1) == Parked })
					away = true
				}
				until(t, "the brokers are away", func() bool { return testutil.ToFloat64(x.metrics.brokersAway) == 1 })
				start := time.Now()
				x.stop()
				if took := time.Since(start); took > pingTimeout || !m.terms[0].ended {
					t.Errorf("it took %v, the term is %+v", took, m.terms[0])
				}
				if want := map[bool]State{true: Parked, false: Pending}[parked]; m.state(1) != want {
					t.Errorf("event 1 is %s, want %s", m.state(1), want)
				}
			})
		})
	}
}

// TestStallOfALook: the reason why ids are not known is said, and nothing is final meanwhile.
func TestStallOfALook(t *testing.T) {
	bubble(t, func(t *testing.T, m *memory, pub *fakePublisher) {
		log, logged := capturedLog()
		m.unknown = Stall{"SEQUENCE_CACHE", "do this"}
		x := run(t, m, pub, func(c *Config) {
			c.Logger, c.TopicSettings = log, ForAll(TopicSettings{CommitOrder: true})
		})
		m.write(keyed(0, "a"))
		time.Sleep(time.Minute)
		if len(pub.arrived()) > 0 || strings.Count(logged(), "error_code=SEQUENCE_CACHE") != 1 {
			t.Errorf("arrived %v; the log:\n%s", pub.arrived(), logged())
		}
		m.mu.Lock()
		m.unknown = Stall{}
		m.mu.Unlock()
		x.done()
	})
}

// TestTermEndsWithItsError says what a loop would log.
func TestTermEndsWithItsError(t *testing.T) {
	bubble(t, func(t *testing.T, m *memory, pub *fakePublisher) {
		r := testRelay(t, func(c *Config) { c.Store, c.Publisher = m, pub })
		l, err := m.Lead(t.Context(), "w")
		if err != nil {
			t.Fatal(err)
		}
		time.AfterFunc(time.Second, func() { m.cut(true) })
		if err := newTerm(r, l).run(t.Context()); !errors.Is(err, ErrNotLeading) {
			t.Errorf("run() = %v", err)
		}
	})
}
