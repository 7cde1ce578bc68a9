package postgres

import (
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/postrider/postrider/internal/relay"
)

func toDLQ(string) string { return "dlq" }

// sent is the settlement of letters that arrived, and of a topic that then takes nothing more.
func sent(hold *relay.HoldChange, ids ...int64) *relay.LetterSettlement {
	s := &relay.LetterSettlement{Delivered: ids}
	if hold != nil {
		s.Holds = []relay.HoldChange{*hold}
	} else {
		s.Lifted = []string{"dlq"}
	}
	return s
}

func (f *fixture) letters(limit int) relay.LetterClaim {
	f.Helper()
	c, err := f.store.ClaimLetters(f.Context(), toDLQ, limit)
	if err != nil {
		f.Fatalf("claim letters: %v", err)
	}
	return c
}

func letterIDs(c relay.LetterClaim) []int64 {
	var ids []int64
	if c != nil {
		for _, e := range c.Events() {
			ids = append(ids, e.ID)
		}
	}
	return ids
}

// exhaust writes events and gives them up.
func (f *fixture) exhaust(keys ...string) []int64 {
	f.Helper()
	ids := f.insert(keys...)
	f.pass(relay.Receipt{Exceptions: exhausted(ids...)})
	return ids
}

func letterHold(probeIn time.Duration) *relay.HoldChange {
	return &relay.HoldChange{Scope: relay.ScopeDeadLetter, Topic: "dlq", Cause: relay.CauseRoute, Code: "X", Error: "why\x00", EventID: uuid.New(), ProbeIn: probeIn}
}

func TestLettersAreClaimedOldestFirstAndOnce(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	if c := f.letters(10); c != nil {
		t.Fatalf("claimed %v of an empty outbox", letterIDs(c))
	}
	f.exhaust("a", "a", "b", "c")
	f.insert("a") // pending, no business of letters
	first, second := f.letters(2), f.letters(10)
	if got := letterIDs(first); !slices.Equal(got, []int64{1, 2}) {
		t.Errorf("the first claim has %v", got)
	}
	if got := letterIDs(second); !slices.Equal(got, []int64{3, 4}) {
		t.Errorf("the second claim has %v", got)
	}
	if c := f.letters(10); c != nil {
		t.Errorf("a third claim has %v", letterIDs(c))
	}
	e := first.Events()[0]
	if e.Attempts != 5 || e.Episode != 1 || e.LastErrorClass != "record" || e.LastErrorCode != "X" || e.LastError != "why\uFFFD" || e.FirstErrorAt.IsZero() || string(e.Key) != "a" {
		t.Errorf("read %+v", e)
	}
	if err := first.Settle(t.Context(), sent(nil, 2)); err != nil {
		t.Fatal(err)
	}
	second.Abandon()
	f.wantStates("1:exhausted(5) 2:dead_lettered(5) 3:exhausted(5) 4:exhausted(5) 5:pending")
	if !value[bool](f, `select sent_at is not null from postrider.outbox_exception where id = 2`) {
		t.Error("a dead-lettered event has no time of sending")
	}
	c := f.letters(10)
	if got := letterIDs(c); !slices.Equal(got, []int64{1, 3, 4}) {
		t.Errorf("left are %v", got)
	}
	c.Abandon()
}

func TestHeldLetters(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.exhaust("a", "b")
	if err := f.letters(10).Settle(t.Context(), sent(letterHold(time.Minute), 1)); err != nil {
		t.Fatal(err)
	}
	f.wantStates("1:dead_lettered(5) 2:exhausted(5)")
	if c := f.letters(10); c != nil {
		t.Fatalf("claimed %v although the topic is held", letterIDs(c))
	}
	if other, err := f.store.ClaimLetters(t.Context(), func(string) string { return "other.dlq" }, 10); err != nil || other == nil {
		t.Errorf("letters for another topic: %v, %v", other, err)
	} else {
		other.Abandon()
	}
	f.insert("a") // the events themselves are not held
	f.pass(relay.Receipt{})
	f.due()
	if due, _, err := f.leader().DueHolds(t.Context(), 10); err != nil || len(due) != 0 || f.holds() != 1 {
		t.Errorf("the leader is to look after the hold of dead letters: %+v, %v", due, err)
	}
	c := f.letters(10) // the probe
	if c == nil {
		t.Fatal("the hold is due and nothing is claimed")
	}
	if err := c.Settle(t.Context(), sent(letterHold(time.Minute))); err != nil {
		t.Fatal(err)
	}
	if f.holds() != 1 {
		t.Errorf("%d holds", f.holds())
	}
	f.due()
	if err := f.letters(10).Settle(t.Context(), sent(nil, 2)); err != nil {
		t.Fatal(err)
	}
	if f.holds() != 0 {
		t.Error("the hold outlives what proved it wrong")
	}
	f.wantStates("1:dead_lettered(5) 2:dead_lettered(5) 3:published")
}

// TestALongPauseIsNoClockPutBack: a circuit breaker waits for minutes between probes, whatever the longest retry is. Only a
// hold whose probe is further ahead than any pause is probed at once, and a hold without a next probe never is.
func TestALongPauseIsNoClockPutBack(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.store, f.relay = f.open(Options{}, StoreOptions{LongestRetry: time.Second})
	f.exec(`insert into postrider.outbox_hold (scope, topic, code, cause, next_probe_at)
		select 'failure', 't', code, 'circuit_breaker', coalesce(clock_timestamp() + ahead, 'infinity')
		from (values ('longest', $1 * interval '1 second'), ('too long', $1 * interval '1 second' + interval '2 minutes'), ('never', null)) v(code, ahead)`,
		relay.LongestPause(time.Second).Seconds())
	due, _, err := f.leader().DueHolds(t.Context(), 10)
	if err != nil || len(due) != 1 || value[string](f, `select code from postrider.outbox_hold where hold_id = $1`, due[0].ID) != "too long" || !due[0].Probe {
		t.Errorf("due is %+v, %v", due, err)
	}
}

func TestLettersSettleOnlyWhatIsExhausted(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.exhaust("a")
	f.insert("b")
	if err := f.letters(10).Settle(t.Context(), sent(nil, 1, 2)); err != nil {
		t.Fatal(err)
	}
	f.wantStates("1:dead_lettered(5) 2:pending")
}

func TestLettersOfADeadSessionAreFree(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.exhaust("a")
	c := f.letters(10)
	pid := c.(*letterClaim).conn.Conn().PgConn().PID()
	f.exec(`select pg_terminate_backend($1)`, pid)
	f.waitFor(`select not exists (select from pg_stat_activity where pid = $1)`, pid)
	if err := c.Settle(t.Context(), sent(nil, 1)); err == nil {
		t.Error("settled on a dead session")
	}
	f.wantStates("1:exhausted(5)")
	if err := f.letters(10).Settle(t.Context(), sent(nil, 1)); err != nil {
		t.Fatal(err)
	}
	f.wantStates("1:dead_lettered(5)")
}

// TestExhaustedNeverComesBack: once an event is given up, nothing may send it to its topic.
func TestExhaustedNeverComesBack(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.insert("a", "a")
	h := f.keyHold("a", 0)
	f.pass(relay.Receipt{Holds: []relay.HoldChange{h}, Exceptions: append(exhausted(1), parked(h.ID, 2)...)})
	f.equal("behind the hold", f.take(10, h.ID), 2)
	f.change(relay.Receipt{Gone: []int64{2}, Ended: []int64{h.ID}})
	f.equal("due", f.take(10))
	f.wantStates("1:exhausted(5) 2:published")
}
