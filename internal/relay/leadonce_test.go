package relay

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// actor is a relay that does not run, for actions.
func actor(t *testing.T, m *memory, pub *fakePublisher, change func(*Config)) *Relay {
	t.Helper()
	t.Cleanup(func() {
		if err := m.check(); err != nil {
			t.Error(err)
		}
	})
	return testRelay(t, func(c *Config) {
		c.Store, c.Publisher = m, pub
		if change != nil {
			change(c)
		}
	})
}

func TestActionCountsWhatIsSettled(t *testing.T) {
	bubble(t, func(t *testing.T, m *memory, pub *fakePublisher) {
		pub.outcome = failing(Record, 2, 6)
		late := m.begin()
		late.insert(late.draw(), keyed(0, "z"), time.Hour)
		late.end(true)
		m.write(keyed(0, "b"), with(keyed(0, "c"), unencodable), keyed(0, "d"), keyed(0, "a"), unkeyed(0), keyed(0, "b"))
		r := actor(t, m, pub, nil)
		got, err := r.ProcessPending(t.Context(), ActionOptions{})
		if err != nil {
			t.Fatal(err)
		}
		got.DurationMS = 0
		want := ActionResult{Action: ActionProcessPending, BatchSize: 5000, Processed: 7, Succeeded: 2, Failed: 3, Exhausted: 1, DeadLettered: 1, Scheduled: 2, Parked: 2}
		if got != want {
			t.Errorf("%+v, want %+v", got, want)
		}
		if m.leader != nil || !m.terms[0].ended || strings.HasPrefix(m.terms[0].worker, r.cfg.Worker) {
			t.Errorf("leader %v, terms %+v", m.leader, m.terms)
		}
	})
}

// TestActionGoesOnBehindWhatItGaveUp: later events of the key of the same batch go, too.
func TestActionGoesOnBehindWhatItGaveUp(t *testing.T) {
	bubble(t, func(t *testing.T, m *memory, pub *fakePublisher) {
		m.write(with(keyed(0, "a"), unencodable), keyed(0, "a"), keyed(0, "a"))
		got, err := actor(t, m, pub, nil).ProcessPending(t.Context(), ActionOptions{})
		if err != nil || got.Succeeded != 2 || got.Returned != 2 || m.waiting() != 0 || len(m.holds) != 0 {
			t.Errorf("%+v, %v; %d wait, holds %v", got, err, m.waiting(), m.holds)
		}
	})
}

// TestActionKeepsToItsLimit, whatever there is: behind the position, in gaps, and beside the log.
func TestActionKeepsToItsLimit(t *testing.T) {
	for _, limit := range []int{1, 3, 10} {
		bubbles(t, func(t *testing.T, m *memory, pub *fakePublisher) {
			open := m.begin()
			for range 10 {
				open.insert(open.draw(), unkeyed(0), 0)
			}
			m.write(unkeyed(0))
			r := actor(t, m, pub, func(c *Config) { c.BatchSize = 4 })
			if got, err := r.ProcessPending(t.Context(), ActionOptions{}); err != nil || got.Processed != 1 {
				t.Fatalf("%+v, %v", got, err)
			}
			open.end(true)
			for range 20 {
				m.write(unkeyed(0))
			}
			if got, err := r.ProcessPending(t.Context(), ActionOptions{Limit: limit}); err != nil || got.Processed != limit {
				t.Errorf("with a limit of %d: %+v, %v", limit, got, err)
			}
		})
	}
}

func bubbles(t *testing.T, test func(*testing.T, *memory, *fakePublisher)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) { test(t, newMemory(), &fakePublisher{}) })
}

// TestRetriesKeepToTheirLimit: if the limit lets only some events of a hold come back, the next call looks after the hold.
func TestRetriesKeepToTheirLimit(t *testing.T) {
	bubble(t, func(t *testing.T, m *memory, pub *fakePublisher) {
		fails := true
		pub.outcome = while(&fails, func(context.Context, Message) Outcome { return Outcome{Class: Route, Code: "X"} })
		for range 10 {
			m.write(unkeyed(0))
		}
		r := actor(t, m, pub, nil)
		if got, err := r.ProcessPending(t.Context(), ActionOptions{}); err != nil || got.Parked != 10 {
			t.Fatalf("%+v, %v", got, err)
		}
		fails = false
		time.Sleep(time.Minute)
		for i, want := range []int{3, 7, 0} {
			got, err := r.ProcessRetries(t.Context(), ActionOptions{Limit: []int{3, 10, 10}[i]})
			if err != nil || got.Succeeded != want || got.Returned != want {
				t.Errorf("call %d: %+v, %v", i, got, err)
			}
		}
		if len(m.holds) != 0 {
			t.Errorf("holds %v", m.holds)
		}
	})
}

// TestRetriesEndWithoutProgress: a topic that stays away is probed once, and new events stay where they are.
func TestRetriesEndWithoutProgress(t *testing.T) {
	bubble(t, func(t *testing.T, m *memory, pub *fakePublisher) {
		pub.outcome = failing(Route, 1, 2)
		m.write(keyed(0, "a"), keyed(0, "b"))
		r := actor(t, m, pub, nil)
		if _, err := r.ProcessPending(t.Context(), ActionOptions{}); err != nil {
			t.Fatal(err)
		}
		m.write(with(unkeyed(0), func(e *Event) { e.Topic = "u" }))
		time.Sleep(time.Minute)
		got, err := r.ProcessRetries(t.Context(), ActionOptions{})
		if err != nil || got.Returned != 1 || got.Parked != 1 || got.Succeeded != 0 || m.state(3) != Pending {
			t.Errorf("%+v, %v; event 3 is %s", got, err, m.state(3))
		}
	})
}

// TestScheduledEventsAreRetries: events that waited for their time are sent by the action for retries.
func TestScheduledEventsAreRetries(t *testing.T) {
	bubble(t, func(t *testing.T, m *memory, pub *fakePublisher) {
		late := m.begin()
		late.insert(late.draw(), unkeyed(0), time.Minute)
		late.end(true)
		r := actor(t, m, pub, nil)
		if got, err := r.ProcessPending(t.Context(), ActionOptions{}); err != nil || got.Scheduled != 1 {
			t.Fatalf("%+v, %v", got, err)
		}
		time.Sleep(time.Minute)
		if got, err := r.ProcessRetries(t.Context(), ActionOptions{}); err != nil || got.Succeeded != 1 || m.waiting() != 0 {
			t.Errorf("%+v, %v", got, err)
		}
	})
}

// TestActionWhereAnotherLeads says so, and sends the letters all the same.
func TestActionWhereAnotherLeads(t *testing.T) {
	bubble(t, func(t *testing.T, m *memory, pub *fakePublisher) {
		r := actor(t, m, pub, nil)
		m.write(with(keyed(0, "a"), unencodable))
		if err := leadOnce(t, r, m); err != nil || m.state(1) != Exhausted {
			t.Fatalf("%v; event 1 is %s", err, m.state(1))
		}
		if _, err := m.Lead(t.Context(), "another"); err != nil {
			t.Fatal(err)
		}
		m.write(keyed(0, "a"))
		for _, do := range []func(context.Context, ActionOptions) (ActionResult, error){r.ProcessPending, r.ProcessRetries} {
			if got, err := do(t.Context(), ActionOptions{}); err != nil || !got.Elsewhere || got.Processed != 0 {
				t.Errorf("%+v, %v", got, err)
			}
		}
		if m.state(1) != DeadLettered || m.state(2) != Pending {
			t.Errorf("event 1 is %s, event 2 %s", m.state(1), m.state(2))
		}
	})
}

// TestActionDoesNotWaitForATransaction: events in commit order that one may precede are left to the next.
func TestActionDoesNotWaitForATransaction(t *testing.T) {
	bubble(t, func(t *testing.T, m *memory, pub *fakePublisher) {
		r := actor(t, m, pub, func(c *Config) { c.TopicSettings = ForAll(TopicSettings{CommitOrder: true}) })
		m.write(keyed(0, "a"))
		if got, err := r.ProcessPending(t.Context(), ActionOptions{Limit: 5}); err != nil || got.Succeeded != 1 {
			t.Fatalf("%+v, %v", got, err)
		}
		open := m.begin()
		open.draw()
		m.write(keyed(0, "a"))
		if got, err := r.ProcessPending(t.Context(), ActionOptions{}); err != nil || got.Processed != 0 {
			t.Errorf("%+v, %v", got, err)
		}
		open.end(false)
		if got, err := r.ProcessPending(t.Context(), ActionOptions{}); err != nil || got.Succeeded != 1 {
			t.Errorf("%+v, %v", got, err)
		}
	})
}

func TestActionsEnd(t *testing.T) {
	t.Parallel()
	m := newMemory()
	r := actor(t, m, &fakePublisher{ping: func() error { return errTest }}, nil)
	if _, err := r.ProcessPending(t.Context(), ActionOptions{}); !errors.Is(err, ErrNoBrokers) || !errors.Is(err, errTest) || m.term != 0 {
		t.Errorf("without brokers: %v, %d terms", err, m.term)
	}
	r = actor(t, m, &fakePublisher{}, nil)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for name, action := range map[string]func(context.Context, ActionOptions) (ActionResult, error){"processPending": r.ProcessPending, "processRetries": r.ProcessRetries} {
		if _, err := action(ctx, ActionOptions{}); !errors.Is(err, context.Canceled) || !strings.HasPrefix(err.Error(), name+": ") {
			t.Errorf("%s, canceled: %v", name, err)
		}
		if _, err := action(t.Context(), ActionOptions{Limit: -1}); err == nil || !strings.Contains(err.Error(), "the limit is -1") {
			t.Errorf("%s with a limit of -1: %v", name, err)
		}
		for _, call := range []string{"lead", "read", "due", "take", "letters", "settle"} {
			m := newMemory()
			late := m.begin()
			late.insert(late.draw(), unkeyed(0), time.Nanosecond)
			late.end(true)
			if name == "processRetries" && (call == "read" || call == "settle") {
				continue // it has none to make
			}
			m.fail = func(c string) error {
				if c == call {
					return errTest
				}
				return nil
			}
			failing := actor(t, m, &fakePublisher{}, nil)
			do := map[string]func(context.Context, ActionOptions) (ActionResult, error){"processPending": failing.ProcessPending, "processRetries": failing.ProcessRetries}[name]
			if _, err := do(t.Context(), ActionOptions{}); !errors.Is(err, errTest) || !strings.HasPrefix(err.Error(), name+": ") {
				t.Errorf("%s, %s fails: %v", name, call, err)
			}
		}
	}
}

// TestActionEndsWhenBrokersGo: in the middle, and settles nothing.
func TestActionEndsWhenBrokersGo(t *testing.T) {
	bubble(t, func(t *testing.T, m *memory, pub *fakePublisher) {
		pings := 0
		pub.outcome = infrastructure
		pub.ping = func() error {
			if pings++; pings > 1 {
				return errTest
			}
			return nil
		}
		m.write(keyed(0, "a"))
		r := actor(t, m, pub, nil)
		if got, err := r.ProcessPending(t.Context(), ActionOptions{}); !errors.Is(err, ErrNoBrokers) || got.Processed != 0 || len(m.receipts) != 0 || m.leader != nil {
			t.Errorf("%+v, %v; %d receipts, leader %v", got, err, len(m.receipts), m.leader)
		}
	})
}
