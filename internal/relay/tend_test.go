package relay

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
)

// while gives events an outcome as long as is says so.
func while(is *bool, of func(context.Context, Message) Outcome) func(context.Context, Message) Outcome {
	return func(ctx context.Context, m Message) Outcome {
		if *is {
			return of(ctx, m)
		}
		return Outcome{Class: Delivered}
	}
}

// TestRetriesKeepTheOrderOfTheirKey: later events of the key wait, others go.
func TestRetriesKeepTheOrderOfTheirKey(t *testing.T) {
	bubble(t, func(t *testing.T, m *memory, pub *fakePublisher) {
		fails := true
		pub.outcome = while(&fails, failing(Record, 1))
		x := run(t, m, pub, nil)
		m.write(keyed(0, "a"), keyed(0, "b"))
		until(t, "it is to be tried again", func() bool { return m.state(1) == Parked })
		m.write(keyed(0, "a"), keyed(0, "a"))
		fails = false
		x.done()
		until(t, "its hold ends", func() bool { return len(m.holds) == 0 })
		if got := pub.arrived(); !slices.Equal(got, []int64{1, 2, 1, 3, 4}) {
			t.Errorf("arrived %v", got)
		}
		x.stop()
		for action, want := range map[string]float64{actionPublish: 4, actionReturn: 3} { // from the log, from behind the hold
			if got := testutil.ToFloat64(x.metrics.processed.WithLabelValues(action)); got != want {
				t.Errorf("%v events were counted as %s, want %v", got, action, want)
			}
		}
	})
}

// TestGivenUpAfterItsAttempts: it becomes a dead letter, the next of its key goes when that is written, and the log says so.
func TestGivenUpAfterItsAttempts(t *testing.T) {
	bubble(t, func(t *testing.T, m *memory, pub *fakePublisher) {
		log, logged := capturedLog()
		pub.outcome = failing(Record, 1)
		x := run(t, m, pub, func(c *Config) { c.Logger = log })
		m.write(with(keyed(0, "a"), func(e *Event) { e.Headers = []byte(`{"traceparent": "` + recorded + `"}`) }), keyed(0, "a"))
		x.done()
		until(t, "its letter goes", func() bool { return m.state(1) == DeadLettered })
		if got := pub.arrived(); !slices.Equal(got, []int64{1, 1, 1, 2}) {
			t.Errorf("arrived %v", got)
		}
		for _, want := range []string{"msg=held", "scope=key", "cause=retry", `msg="event given up"`, "id=1", "attempts=3", "error_code=X", "err=why", "trace_id=" + aTrace} {
			if !strings.Contains(logged(), want) {
				t.Errorf("the log lacks %s:\n%s", want, logged())
			}
		}
		if got := testutil.ToFloat64(x.metrics.failures.WithLabelValues("X")); got != 3 {
			t.Errorf("%v failures are counted", got)
		}
	})
}

// TestTheTraceOfWhatWasNeverSent: the log names the trace of an event that could not be sent for its size or its headers.
func TestTheTraceOfWhatWasNeverSent(t *testing.T) {
	for code, event := range map[string]Event{
		CodeInvalidHeaders: with(keyed(0, "a"), func(e *Event) { e.Headers = []byte(`{"traceparent": "` + recorded + `", "n": 1}`) }),
	} {
		bubble(t, func(t *testing.T, m *memory, pub *fakePublisher) {
			log, logged := capturedLog()
			x := run(t, m, pub, func(c *Config) { c.Logger = log })
			m.write(event)
			x.done()
			until(t, "its letter goes", func() bool { return m.state(1) == DeadLettered })
			for _, want := range []string{`msg="event given up"`, "error_code=" + code, "trace_id=" + aTrace} {
				if !strings.Contains(logged(), want) {
					t.Errorf("%s: the log lacks %s:\n%s", code, want, logged())
				}
			}
		})
	}
}

// TestDelayedEvents wait for their time, and hold nothing back.
func TestDelayedEvents(t *testing.T) {
	bubble(t, func(t *testing.T, m *memory, pub *fakePublisher) {
		x := run(t, m, pub, nil)
		late := m.begin()
		late.insert(late.draw(), keyed(0, "a"), time.Minute)
		late.end(true)
		m.write(keyed(0, "a"))
		start := time.Now()
		x.done()
		if took := time.Since(start); took < time.Minute || took > time.Minute+time.Second {
			t.Errorf("it went after %v", took)
		}
		if got := pub.arrived(); !slices.Equal(got, []int64{2, 1}) {
			t.Errorf("arrived %v", got)
		}
	})
}

// TestAHeldTopicDrainsInOrder while its writers go on: the hold ends, although each look finds something to park.
func TestAHeldTopicDrainsInOrder(t *testing.T) {
	bubble(t, func(t *testing.T, m *memory, pub *fakePublisher) {
		fails := true
		pub.outcome = while(&fails, func(context.Context, Message) Outcome {
			if fails {
				return Outcome{Class: Route, Code: "X"}
			}
			time.Sleep(50 * time.Microsecond)
			return Outcome{Class: Delivered}
		})
		x := run(t, m, pub, func(c *Config) { c.BatchSize = 20 })
		for i := range 500 {
			m.write(keyed(0, string(rune('a'+i%5))))
		}
		until(t, "they wait", func() bool { return m.state(500) == Parked })
		fails = false
		for i := range 3000 {
			m.write(keyed(0, string(rune('a'+i%5))))
			time.Sleep(300 * time.Microsecond)
		}
		until(t, "the hold ends", func() bool { return len(m.holds) == 0 })
		x.done()
		last := map[string]int64{}
		for i, id := range pub.arrived() {
			if key := string(pub.tried[i].Key); id > last[key] {
				last[key] = id
			} else if id > 500 { // the first ones were refused
				t.Fatalf("event %d came after %d of its key", id, last[key])
			}
		}
	})
}

// TestPutBackIsTriedAgain: an event that was taken and withheld stays behind its hold, and comes again.
func TestPutBackIsTriedAgain(t *testing.T) {
	bubble(t, func(t *testing.T, m *memory, pub *fakePublisher) {
		phase := 0
		pub.outcome = func(_ context.Context, msg Message) Outcome {
			switch id := msg.ID.EventID[15]; {
			case phase == 0:
				return Outcome{Class: Route, Code: "X"}
			case phase == 1 && id > 2:
				return Outcome{Class: Withheld}
			}
			return Outcome{Class: Delivered}
		}
		x := run(t, m, pub, nil)
		m.write(keyed(0, "a"), keyed(0, "b"), keyed(0, "c"), unkeyed(0))
		until(t, "they wait", func() bool { return m.state(4) == Parked })
		phase = 1
		until(t, "two go", func() bool { return m.waiting() == 2 })
		time.Sleep(time.Minute)
		if m.state(3) != Parked || m.term != 1 {
			t.Errorf("event 3 is %s in term %d", m.state(3), m.term)
		}
		phase = 2
		x.done()
		until(t, "the hold ends", func() bool { return len(m.holds) == 0 })
		if m.term != 1 {
			t.Errorf("%d terms", m.term)
		}
	})
}

// TestAHaltedKeyWaitsForAPerson who puts its event back, or lets the key go.
func TestAHaltedKeyWaitsForAPerson(t *testing.T) {
	for name, c := range map[string]struct {
		act     func(*memory)
		arrived []int64
		state   State
	}{
		"redriven":             {func(m *memory) { m.redrive(1) }, []int64{1, 1, 2, 3}, Published},
		"released":             {func(m *memory) { m.release(m.heldBy(CauseHalted)[0]) }, []int64{1, 2, 3}, DeadLettered},
		"redriven and skipped": {func(m *memory) { m.redrive(1); m.skip(1, "no") }, []int64{1, 2, 3}, DeadLettered},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, m *memory, pub *fakePublisher) {
				fails := true
				pub.outcome = while(&fails, failing(Permanent, 1))
				x := run(t, m, pub, func(c *Config) { c.TopicSettings = ForAll(TopicSettings{AfterLastAttempt: PolicyHaltKey}) })
				m.write(keyed(0, "a"), keyed(0, "b"))
				until(t, "it is dead-lettered", func() bool { return m.state(1) == DeadLettered })
				m.write(keyed(0, "a"))
				time.Sleep(time.Hour)
				if m.state(3) != Parked {
					t.Fatalf("event 3 is %s", m.state(3))
				}
				fails = false
				c.act(m)
				x.done()
				until(t, "the hold ends", func() bool { return len(m.holds) == 0 })
				until(t, "it is where it belongs", func() bool { return m.state(1) == c.state })
				got := pub.arrived()
				slices.Sort(got[:2])
				if !slices.Equal(got[len(got)-1:], []int64{3}) || len(got) != len(c.arrived) {
					t.Errorf("arrived %v, want %v", got, c.arrived)
				}
			})
		})
	}
}

// TestSkip: people give up events that the log has before it, that wait for their time, and that wait behind a hold.
func TestSkip(t *testing.T) {
	bubble(t, func(t *testing.T, m *memory, pub *fakePublisher) {
		pub.outcome = failing(Record, 2)
		late := m.begin()
		late.insert(late.draw(), unkeyed(0), time.Hour)
		late.end(true)
		m.write(keyed(0, "a"), keyed(0, "a"), keyed(0, "b"), keyed(0, "b"))
		m.skip(4, "a mistake")
		x := run(t, m, pub, nil)
		until(t, "two wait", func() bool { return m.state(1) == Scheduled && m.state(2) == Parked })
		until(t, "they may be skipped", func() bool { return m.skip(2, "no") })
		m.skip(1, "no")
		x.done()
		for id, want := range map[int64]State{1: DeadLettered, 2: DeadLettered, 3: Published, 4: DeadLettered, 5: Published} {
			until(t, "all have ended", func() bool { return m.state(id) == want })
		}
		if slices.Contains(pub.arrived(), 4) || len(m.skips) > 0 {
			t.Errorf("arrived %v, skips %v", pub.arrived(), m.skips)
		}
	})
}

// TestSkipTooLate: a request about an event that waits by now is done; a request about an event that has gone is forgotten.
func TestSkipTooLate(t *testing.T) {
	bubble(t, func(t *testing.T, m *memory, pub *fakePublisher) {
		pub.outcome = failing(Route, 1)
		x := run(t, m, pub, func(c *Config) {
			c.TopicSettings = ForAll(TopicSettings{})
		})
		m.write(keyed(0, "a"), keyed(0, "b"))
		until(t, "it waits", func() bool { return m.state(1) == Parked })
		m.mu.Lock()
		m.skips[1], m.skips[2] = "late", "late"
		m.mu.Unlock()
		until(t, "it is given up", func() bool { return m.state(1) == DeadLettered })
		until(t, "nothing is asked", func() bool { return len(m.skips) == 0 })
		x.done()
	})
}

func breaker(n int) func(*Config) {
	return func(c *Config) { c.TopicSettings = ForAll(TopicSettings{BreakerEvents: n, BreakerWindow: time.Hour}) }
}

// failsOnX fails every event whose key begins with x, as long as it is told.
func failsOnX(is *bool) func(context.Context, Message) Outcome {
	return while(is, func(_ context.Context, m Message) Outcome {
		if !m.ID.Letter && string(m.Value) == "bad" {
			return Outcome{Class: Permanent, Code: "REFUSED"}
		}
		return Outcome{Class: Delivered}
	})
}

func bad(key string) Event {
	return with(keyed(0, key), func(e *Event) { e.Payload = []byte("bad") })
}

// TestABreakerKeepsWhatFails and nothing else: good events of the topic go, also events of the same key behind a bad one.
func TestABreakerKeepsWhatFails(t *testing.T) {
	for name, c := range map[string]struct {
		heals bool
		act   func(m *memory, hold int64)
		want  State
		after time.Duration // at least
	}{
		"released and well again":        {true, (*memory).release, Published, 0},
		"released too early, then again": {false, (*memory).release, Parked, 0},
		"given up":                       {false, (*memory).giveUp, DeadLettered, 0},
		"well again, by a probe":         {true, func(*memory, int64) {}, Published, 10 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, m *memory, pub *fakePublisher) {
				fails := true
				pub.outcome = failsOnX(&fails)
				run(t, m, pub, breaker(2))
				m.write(bad("a"), bad("b"), bad("c"), keyed(0, "c"), bad("d"), keyed(0, "e"), unkeyed(0))
				for _, id := range []int64{4, 6, 7} {
					until(t, "good events go", func() bool { return m.state(id) == Published })
				}
				for id, want := range map[int64]State{1: DeadLettered, 2: DeadLettered, 3: Parked, 5: Parked} {
					until(t, "the others are kept", func() bool { return m.state(id) == want })
				}
				hold := m.heldBy(CauseBreaker)[0]
				fails = !c.heals
				start := time.Now()
				c.act(m, hold)
				if c.want == Parked {
					before := len(pub.arrived())
					until(t, "both were tried", func() bool { return len(pub.arrived()) == before+2 })
					time.Sleep(20 * time.Second) // the next probe comes in 30 s
					if m.state(3) != c.want || m.state(5) != c.want || m.holds[hold].Draining || m.holds[hold].asked != "" || len(pub.arrived()) != before+2 {
						t.Errorf("events are %s and %s, the hold %+v", m.state(3), m.state(5), m.holds[hold])
					}
					fails = false
					c.want = Published
					m.release(hold)
				}
				for _, id := range []int64{3, 5} {
					until(t, "they find their end", func() bool { return m.state(id) == c.want })
				}
				until(t, "the hold ends", func() bool { return len(m.holds) == 0 })
				if took := time.Since(start); took < c.after {
					t.Errorf("it took %v", took)
				}
			})
		})
	}
}

// TestABreakerIsSwitchedOff by its setting: the events that it keeps come back with the next term.
func TestABreakerIsSwitchedOff(t *testing.T) {
	bubble(t, func(t *testing.T, m *memory, pub *fakePublisher) {
		fails := true
		pub.outcome = failsOnX(&fails)
		first := run(t, m, pub, breaker(1))
		m.write(bad("a"), bad("b"), bad("c"))
		until(t, "they are kept", func() bool { return m.state(3) == Parked })
		first.stop()
		run(t, m, pub, breaker(-1))
		for _, id := range []int64{2, 3} {
			until(t, "they are given up", func() bool { return m.state(id) == DeadLettered })
		}
		until(t, "the hold ends", func() bool { return len(m.holds) == 0 })
	})
}

// TestATopicIsGivenUp by hand: all that waits for it becomes dead letters, in one go.
func TestATopicIsGivenUp(t *testing.T) {
	bubble(t, func(t *testing.T, m *memory, pub *fakePublisher) {
		pub.outcome = func(_ context.Context, msg Message) Outcome {
			if msg.ID.Letter {
				return Outcome{Class: Delivered}
			}
			return Outcome{Class: Route, Code: "X"}
		}
		x := run(t, m, pub, func(c *Config) { c.BatchSize = 3 })
		for range 10 {
			m.write(keyed(0, "a"), unkeyed(0))
		}
		until(t, "they wait", func() bool { return m.state(20) == Parked })
		m.giveUp(m.heldBy(CauseRoute)[0])
		x.done()
		for id := range int64(20) {
			until(t, "they are dead-lettered", func() bool { return m.state(id+1) == DeadLettered })
		}
		until(t, "the hold ends", func() bool { return len(m.holds) == 0 })
	})
}

// TestHoldsGoOnInTheNextTerm: what a term before has held is held, with its age, and ends.
func TestHoldsGoOnInTheNextTerm(t *testing.T) {
	bubble(t, func(t *testing.T, m *memory, pub *fakePublisher) {
		fails := true
		pub.outcome = while(&fails, failing(Infrastructure, 1, 2, 3))
		age := func(c *Config) { c.TopicSettings = ForAll(TopicSettings{MaxAge: time.Hour}) }
		first := run(t, m, pub, age)
		m.write(keyed(0, "a"), keyed(0, "a"))
		until(t, "they wait", func() bool { return m.state(2) == Parked })
		time.Sleep(40 * time.Minute)
		first.stop()
		run(t, m, pub, age)
		m.write(keyed(0, "a"))
		time.Sleep(25 * time.Minute)
		until(t, "the old ones are given up", func() bool { return m.state(1) == DeadLettered && m.state(2) == DeadLettered })
		if m.state(3) != Parked {
			t.Errorf("the young one is %s", m.state(3))
		}
		fails = false
		until(t, "the hold ends", func() bool { return len(m.holds) == 0 && m.state(3) == Published })
	})
}
