package postgres

import (
	"testing"
	"time"

	"github.com/postrider/postrider/internal/relay"
	"github.com/postrider/postrider/message"
	"github.com/postrider/postrider/retry"
)

// halting are the settings of topics whose keys halt, after one attempt.
func halting(string) relay.TopicSettings {
	return relay.TopicSettings{AfterLastAttempt: relay.PolicyHaltKey, DLQTopic: "dlq",
		Retry: retry.Policy{MaxAttempts: 2, Base: time.Millisecond, Max: 2 * time.Millisecond}}
}

// redrive puts an event back that is dead-lettered.
func (f *fixture) redrive(id int64) {
	f.Helper()
	f.state(id, relay.DeadLettered)
	f.done(f.tryRedrive(id))
}

// TestHaltedKeyFromItsFallToItsEnd: an event is refused until it is given up, its key halts, others flow;
// put back it is refused again and halts again, with a dead letter of its own; mended and put back it goes
// in its place, and its key follows in order.
func TestHaltedKeyFromItsFallToItsEnd(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	b := &memory{}
	b.refuse(relay.Record, values("t", "bad"))
	id := f.writes("t", "k", "one", "bad", "three", "four")[1]
	f.writes("t", "other", "x")
	f.run(b, halting, nil)
	f.state(id, relay.DeadLettered)
	f.waitFor(`select count(*) = 2 from postrider.v_outbox_event where state = 'parked'`)
	f.writes("t", "k", "five")
	f.writes("t", "other", "y")
	f.waitFor(`select count(*) = 3 from postrider.v_outbox_event where state = 'parked'`)
	f.waitFor(`select count(*) = 3 from postrider.v_outbox_event where state = 'published'`)
	holds, err := f.store.Holds(t.Context(), HoldFilter{})
	if err != nil || len(holds) != 1 {
		t.Fatalf("%d holds, %v", len(holds), err)
	}
	if h := holds[0]; h.Cause != relay.CauseHalted || h.OutboxID != id || h.NextProbeAt != nil || h.Parked != 3 || h.Key != "k" ||
		h.ErrorCode != "REFUSED" || h.ErrorCategory != message.Fatal || h.Draining {
		t.Errorf("the hold is %+v", h)
	}

	f.redrive(id)
	f.waitFor(`select state = 'dead_lettered' and episode = 2 from postrider.v_outbox_event where id = $1`, id)
	if got := f.theHold(); got != "key halted never" {
		t.Errorf("given up again, the hold is %s", got)
	}
	if n := value[int](f, `select count(*) from postrider.v_outbox_event where state = 'parked'`); n != 3 {
		t.Errorf("%d wait behind it, want 3", n)
	}

	b.mend()
	f.redrive(id)
	f.drained()
	if got := b.arrived("dlq"); got != "bad bad" {
		t.Errorf("dead letters: %s", got)
	}
	if k := b.arrived("t", "k"); k != "one bad three four five" {
		t.Errorf("the key arrived as %s", k)
	}
	if got := value[string](f, `select concat_ws(' ', state, episode, attempts) from postrider.v_outbox_event where id = $1`, id); got != "published 0 0" {
		t.Errorf("the event is %s", got)
	}
}

// TestOutageDuringARedrive: the event waits for its topic, its key for the event.
func TestOutageDuringARedrive(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	b := &memory{}
	b.refuse(relay.Permanent, values("t", "bad"))
	id := f.writes("t", "k", "bad", "two", "three")[0]
	f.run(b, halting, nil)
	f.state(id, relay.DeadLettered)
	b.refuse(relay.Route, func(m *relay.Message) bool { return m.Topic == "t" })
	f.redrive(id)
	f.held(relay.CauseRoute)
	f.state(id, relay.Parked)
	f.writes("t", "k", "four")
	f.waitFor(`select count(*) = 4 from postrider.v_outbox_event where state = 'parked'`)
	b.mend()
	f.drained()
	if got := b.arrived("t"); got != "bad two three four" {
		t.Errorf("arrived %s", got)
	}
}

// TestReleasedKeyGoesOnWithoutItsEvent.
func TestReleasedKeyGoesOnWithoutItsEvent(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	b := &memory{}
	b.refuse(relay.Permanent, values("t", "bad", "worse"))
	f.writes("t", "k", "bad", "two", "worse", "four")
	f.run(b, halting, nil)
	f.state(1, relay.DeadLettered)
	if _, err := f.tryRelease(f.held(relay.CauseHalted)); err != nil {
		t.Fatal(err)
	}
	f.state(3, relay.DeadLettered) // halts it again, on the way
	if _, err := f.tryRelease(f.held(relay.CauseHalted)); err != nil {
		t.Fatal(err)
	}
	f.drained()
	if got := b.arrived("t"); got != "two four" {
		t.Errorf("arrived %s", got)
	}
	f.wantStates("1:dead_lettered(1) 2:published 3:dead_lettered(1) 4:published")
}

// TestSkippedHeadLetsItsKeyGo: an operator gives up an event that would be tried for hours.
func TestSkippedHeadLetsItsKeyGo(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	b := &memory{}
	b.refuse(relay.Record, values("t", "bad"))
	f.writes("t", "k", "bad", "two", "three")
	f.run(b, func(string) relay.TopicSettings {
		return relay.TopicSettings{DLQTopic: "dlq", Retry: retry.Policy{MaxAttempts: 9, Base: time.Hour, Max: time.Hour}}
	}, nil)
	f.held(relay.CauseRetry)
	f.waitFor(`select count(*) = 3 from postrider.v_outbox_event where state = 'parked'`)
	if err := f.trySkip(1, "not needed"); err != nil {
		t.Fatal(err)
	}
	f.drained()
	if got := b.arrived("t"); got != "two three" {
		t.Errorf("arrived %s", got)
	}
	f.wantStates("1:dead_lettered(1) 2:published 3:published")
}
