package relay

import (
	"context"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
)

// restful is a relay that rests, with looks up to a second apart.
func restful(c *Config) { c.Rests, c.IdlePollMax = true, time.Second }

// asked counts what a relay asked of its outbox: glances, and all else.
func (x *running) asked() (glances, others int) {
	x.m.mu.Lock()
	defer x.m.mu.Unlock()
	return x.m.glances, x.m.reads + x.m.looks + x.m.dues + x.m.claims
}

// TestAQuietRelayGlances: one question a second is all that it asks, for hours, also beside a key that waits for a person.
func TestAQuietRelayGlances(t *testing.T) {
	bubble(t, func(t *testing.T, m *memory, pub *fakePublisher) {
		pub.outcome = failing(Permanent, 1)
		x := run(t, m, pub, func(c *Config) {
			restful(c)
			c.TopicSettings = ForAll(TopicSettings{AfterLastAttempt: PolicyHaltKey})
		})
		m.write(keyed(0, "a"), keyed(0, "a"))
		until(t, "the key is halted", func() bool { return m.state(1) == DeadLettered })
		time.Sleep(time.Minute)
		glances, others := x.asked()
		time.Sleep(30 * time.Minute)
		more, most := x.asked()
		if more -= glances; more < 29*60 || more > 31*60 {
			t.Errorf("%d glances in 30 minutes", more)
		}
		if most != others {
			t.Errorf("%d other questions in 30 minutes", most-others)
		}
	})
}

// TestAQuietLogIsAllThatIsLookedAt: where nothing waits, one glance in ten is at more than the log. After one that sees something,
// and after a command, each is.
func TestAQuietLogIsAllThatIsLookedAt(t *testing.T) {
	bubble(t, func(t *testing.T, m *memory, _ *fakePublisher) {
		x := run(t, m, &fakePublisher{}, restful)
		m.write(keyed(0, "a"))
		until(t, "it goes", func() bool { return m.state(1) == Published })
		time.Sleep(time.Minute)
		glances := func() (all, atLog int) {
			m.mu.Lock()
			defer m.mu.Unlock()
			return m.glances, m.glancesAtLog
		}
		all, atLog := glances()
		time.Sleep(10 * time.Minute)
		most, more := glances()
		if most -= all; most < 590 || most > 610 {
			t.Errorf("%d glances in 10 minutes", most)
		}
		if more -= atLog; more < most*8/10 || more > most*9/10 {
			t.Errorf("%d of %d glances were at the log alone", more, most)
		}
		_, atLog = glances()
		x.Wake()
		synctest.Wait()
		if _, now := glances(); now != atLog {
			t.Error("a relay that was woken looked at its log alone")
		}
		late := m.begin()
		late.insert(late.draw(), keyed(0, "a"), 24*time.Hour)
		late.end(true)
		until(t, "an event waits for its time", func() bool { return m.state(2) == Scheduled })
		time.Sleep(time.Minute)
		_, atLog = glances()
		time.Sleep(10 * time.Minute)
		if _, now := glances(); now != atLog {
			t.Errorf("%d glances were at the log alone while an event waited for its time", now-atLog)
		}
	})
}

// TestAQuietRelayWakes: whatever there is to do, it is done within the pause of a glance.
func TestAQuietRelayWakes(t *testing.T) {
	bubble(t, func(t *testing.T, m *memory, pub *fakePublisher) {
		fails := true
		pub.outcome = while(&fails, failing(Permanent, 1, 5))
		x := run(t, m, pub, func(c *Config) {
			restful(c)
			c.TopicSettings = ForAll(TopicSettings{AfterLastAttempt: PolicyHaltKey})
		})
		within := func(what string, act func(), is func() bool) {
			t.Helper()
			time.Sleep(10 * time.Minute)
			act()
			began := time.Now()
			until(t, what, is)
			if took := time.Since(began); took > time.Second+100*time.Millisecond {
				t.Errorf("%s: after %v", what, took)
			}
		}
		within("an event is given up, and its dead letter goes", func() { m.write(keyed(0, "a"), keyed(0, "a")) }, func() bool { return m.state(1) == DeadLettered })
		fails = false
		within("its hold is released", func() { m.release(m.heldBy(CauseHalted)[0]) }, func() bool { return m.state(2) == Published })
		within("an event that waits for its time is written", func() {
			late := m.begin()
			late.insert(late.draw(), keyed(0, "a"), time.Hour)
			late.end(true)
		}, func() bool { return m.state(3) == Scheduled })
		within("people skip it, and its dead letter goes", func() { m.skip(3, "why") }, func() bool { return m.state(3) == DeadLettered })
		late := m.begin()
		late.insert(late.draw(), keyed(0, "a"), 12*time.Minute)
		late.end(true)
		written := time.Now()
		until(t, "an event whose time has come goes", func() bool { return m.state(4) == Published })
		if took := time.Since(written); took > 12*time.Minute+2*time.Second {
			t.Errorf("it went after %v", took)
		}
		fails = true
		within("one more halts its key", func() { m.write(keyed(0, "b")) }, func() bool { return m.state(5) == DeadLettered })
		fails = false
		within("it is back in its place", func() { m.redrive(5) }, func() bool { return m.state(5) == Published })
		if got := pub.arrived(); !slices.Equal(got, []int64{1, 2, 4, 5, 5}) {
			t.Errorf("arrived %v", got)
		}
		x.done()
	})
}

// TestWake: a relay that looks once an hour does at once what it is woken for.
func TestWake(t *testing.T) {
	bubble(t, func(t *testing.T, m *memory, pub *fakePublisher) {
		fails := true
		pub.outcome = while(&fails, failing(Permanent, 1))
		x := run(t, m, pub, func(c *Config) {
			c.Rests, c.IdlePollMax = true, time.Hour
			c.TopicSettings = ForAll(TopicSettings{AfterLastAttempt: PolicyHaltKey})
		})
		m.write(keyed(0, "a"), keyed(0, "a"))
		until(t, "the key is halted", func() bool { return m.state(1) == DeadLettered })
		time.Sleep(100*time.Hour + 29*time.Minute) // in the middle of a pause
		fails = false
		m.redrive(1)
		began := time.Now()
		x.Wake()
		until(t, "it goes in its place", func() bool { return m.state(2) == Published })
		if took := time.Since(began); took > time.Second {
			t.Errorf("it went after %v", took)
		}
		if got := pub.arrived(); !slices.Equal(got, []int64{1, 1, 2}) {
			t.Errorf("arrived %v", got)
		}
	})
}

// TestAGlanceFails: each loop looks for itself while glances fail, and nothing waits for the next one.
func TestAGlanceFails(t *testing.T) {
	bubble(t, func(t *testing.T, m *memory, pub *fakePublisher) {
		m.fail = func(call string) error {
			if call == "glance" {
				return errTest
			}
			return nil
		}
		x := run(t, m, pub, restful)
		for range 5 {
			m.write(keyed(0, "a"))
			x.done()
			time.Sleep(time.Minute)
		}
		if m.term != 1 {
			t.Errorf("the term is %d", m.term)
		}
	})
}

// TestAGapIsNoRest: an event that is committed late has an id below the position. No glance sees it, so the relay goes on reading.
func TestAGapIsNoRest(t *testing.T) {
	bubble(t, func(t *testing.T, m *memory, pub *fakePublisher) {
		run(t, m, pub, restful)
		late := m.begin()
		id := late.draw()
		m.write(keyed(0, "a"))
		until(t, "the event behind it goes", func() bool { return m.state(id+1) == Published })
		time.Sleep(time.Hour)
		late.insert(id, keyed(0, "b"), 0)
		late.end(true)
		began := time.Now()
		until(t, "it goes when it is committed", func() bool { return m.state(id) == Published })
		if took := time.Since(began); took > 2*time.Second {
			t.Errorf("it went after %v", took)
		}
	})
}

// TestABusyRelayDoesNotRest: while events come all the time there are no glances, and each loop looks for itself.
func TestABusyRelayDoesNotRest(t *testing.T) {
	bubble(t, func(t *testing.T, m *memory, pub *fakePublisher) {
		x := run(t, m, pub, restful)
		time.Sleep(time.Minute)
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		var writing sync.WaitGroup
		writing.Go(func() {
			for ctx.Err() == nil {
				m.write(keyed(0, "a"))
				time.Sleep(20 * time.Millisecond)
			}
		})
		time.Sleep(time.Minute)
		glances, _ := x.asked()
		late := m.begin()
		id := late.draw()
		late.insert(id, keyed(0, "b"), time.Hour)
		late.end(true)
		until(t, "it waits for its time", func() bool { return m.state(id) == Scheduled })
		time.Sleep(time.Minute)
		began := time.Now()
		m.mu.Lock()
		m.skips[id] = "why"
		m.mu.Unlock()
		until(t, "people skip it beside them", func() bool { return m.state(id) == DeadLettered })
		if took := time.Since(began); took > 2*time.Second {
			t.Errorf("it went after %v", took)
		}
		if more, _ := x.asked(); more != glances {
			t.Errorf("%d glances of a busy relay", more-glances)
		}
		stop()
		writing.Wait()
	})
}

// TestARestIsOver: when a term ends while it rests, its loops do not wait for its glances any more.
func TestARestIsOver(t *testing.T) {
	bubble(t, func(t *testing.T, m *memory, pub *fakePublisher) {
		x := run(t, m, pub, restful)
		time.Sleep(time.Minute)
		if !x.rest.resting() {
			t.Error("it does not rest")
		}
		m.cut(true)
		until(t, "the next term", func() bool { return m.term == 2 })
		m.write(with(keyed(0, "a"), unencodable))
		until(t, "the dead letter goes", func() bool { return m.state(1) == DeadLettered })
	})
}

// TestFiguresOfAQuietOutbox: while a glance sees nothing, the figures are 0 and the outbox is not asked.
func TestFiguresOfAQuietOutbox(t *testing.T) {
	bubble(t, func(t *testing.T, m *memory, pub *fakePublisher) {
		m.backlog = Backlog{Pending: 3}
		x := run(t, m, pub, restful)
		time.Sleep(time.Minute)
		x.metrics.backlog.set(Backlog{Pending: 7}, time.Now())
		read := func() float64 {
			if _, err := x.readBacklog(t.Context()); err != nil {
				t.Fatal(err)
			}
			return testutil.ToFloat64(x.metrics.backlog.pending)
		}
		if got := read(); got != 0 {
			t.Errorf("%v events wait, by a glance", got)
		}
		x.rest.set(true, false) // it saw something
		if got := read(); got != 3 {
			t.Errorf("%v events wait, by the outbox", got)
		}
	})
}
