package postgres

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/postrider/postrider/internal/relay"
)

// ownDLQ sends the letters of topic x to x.dlq.
func ownDLQ(topic string) string { return topic + ".dlq" }

func (f *fixture) lettersOf(limit int) relay.LetterClaim {
	f.Helper()
	c, err := f.store.ClaimLetters(f.Context(), ownDLQ, limit)
	if err != nil {
		f.Fatalf("claim letters: %v", err)
	}
	return c
}

// TestLettersOfTwoTopicsOneHeld: what holds one dead-letter topic does not hold the other.
func TestLettersOfTwoTopicsOneHeld(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	ids := append(f.insertInto("a", "k", "k", "k"), f.insertInto("b", "k", "k", "k")...)
	f.pass(relay.Receipt{Exceptions: exhausted(ids...)})
	c := f.lettersOf(4) // two of each
	if got := letterIDs(c); !slices.Equal(sorted(got), []int64{1, 2, 4, 5}) {
		t.Errorf("claimed %v", got)
	}
	hold := letterHold(time.Minute)
	hold.Topic = "a.dlq"
	f.done(c.Settle(t.Context(), &relay.LetterSettlement{Delivered: []int64{4, 5}, Holds: []relay.HoldChange{*hold}, Lifted: []string{"b.dlq"}}))
	c = f.lettersOf(10)
	if got := letterIDs(c); !slices.Equal(got, []int64{6}) {
		t.Errorf("claimed %v, want what is left of the topic that is not held", got)
	}
	f.done(c.Settle(t.Context(), &relay.LetterSettlement{Delivered: []int64{6}, Lifted: []string{"b.dlq"}}))
	if c := f.lettersOf(10); c != nil {
		t.Errorf("claimed %v of a held topic", letterIDs(c))
	}
	if got := value[string](f, `select string_agg(topic, ' ') from postrider.outbox_hold`); got != "a.dlq" {
		t.Errorf("held are %s", got)
	}
	// An operator who releases the hold need not wait for the time of its probe.
	if r, err := f.tryRelease(1); err != nil || r.Scope != relay.ScopeDeadLetter || r.Draining {
		t.Errorf("release: %+v, %v", r, err)
	}
	c = f.lettersOf(10)
	if got := letterIDs(c); !slices.Equal(got, []int64{1, 2, 3}) {
		t.Errorf("claimed %v after the release", got)
	}
	f.done(c.Settle(t.Context(), &relay.LetterSettlement{Delivered: []int64{1, 2, 3}, Lifted: []string{"a.dlq"}}))
	f.wantStates("1:dead_lettered(5) 2:dead_lettered(5) 3:dead_lettered(5) 4:dead_lettered(5) 5:dead_lettered(5) 6:dead_lettered(5)")
	if f.holds() != 0 {
		t.Error("the hold outlives what proved it wrong")
	}
}

func sorted(ids []int64) []int64 { return slices.Sorted(slices.Values(ids)) }

// TestRefusedLettersMakeRoom: letters that are refused again and again are offered after letters that were not
// tried, and so keep none of these waiting.
func TestRefusedLettersMakeRoom(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.exhaust("a", "b", "c", "d")
	c := f.letters(2)
	f.done(c.Settle(t.Context(), &relay.LetterSettlement{Postponed: []int64{1, 2}, PostponeFor: time.Minute, Lifted: []string{"dlq"}}))
	c = f.letters(4)
	if got := letterIDs(c); !slices.Equal(got, []int64{3, 4}) {
		t.Errorf("claimed %v, want the untried ones", got)
	}
	c.Abandon()
	if got := value[float64](f, `select extract(epoch from next_attempt_at - now())::float8 from postrider.outbox_exception where id = 1`); got < 50 || got > 60 {
		t.Errorf("it is offered again in %v s, want a minute", got)
	}
	f.exec(`update postrider.outbox_exception set next_attempt_at = now() - interval '1 second' where id = 2`)
	c = f.letters(2)
	if got := letterIDs(c); !slices.Equal(got, []int64{3, 4}) {
		t.Errorf("claimed %v, want the untried ones first", got)
	}
	f.done(c.Settle(t.Context(), sent(nil, 3, 4)))
	f.done(f.letters(2).Settle(t.Context(), sent(nil, 2)))
	f.wantStates("1:exhausted(5) 2:dead_lettered(5) 3:dead_lettered(5) 4:dead_lettered(5)")
	if !value[bool](f, `select next_attempt_at is null from postrider.outbox_exception where id = 2`) {
		t.Error("a dead-lettered event is still to be tried")
	}
}

// TestLettersOfMoreTopicsThanALimit: no topic is starved by others.
func TestLettersOfMoreTopicsThanALimit(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	const topics = 40
	var ids []int64
	for n := range topics {
		ids = append(ids, f.insertInto(fmt.Sprintf("topic-%d", n), "k", "k")...)
	}
	f.pass(relay.Receipt{Exceptions: exhausted(ids...)})
	for turn := 0; ; turn++ {
		c := f.lettersOf(32)
		if c == nil {
			break
		}
		perTopic := map[string]int{}
		for _, e := range c.Events() {
			perTopic[e.Topic]++
		}
		if len(letterIDs(c)) > 32 || turn == 0 && len(perTopic) != 32 || turn > topics*2 {
			t.Fatalf("turn %d has %d letters of %d topics", turn, len(letterIDs(c)), len(perTopic))
		}
		f.done(c.Settle(t.Context(), &relay.LetterSettlement{Delivered: letterIDs(c)}))
	}
	if n := value[int](f, `select count(*) from postrider.outbox_exception where state = 'dead_lettered'`); n != 2*topics {
		t.Errorf("%d are dead-lettered, want %d", n, 2*topics)
	}
}

// TestARefusedLetterAmongForty: the whole relay; one letter is refused by its topic, for good, before the
// others in every order there is. They pass, it stays, and passes when its topic takes it.
func TestARefusedLetterAmongForty(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	b := &memory{}
	first := eventID(f, f.writes("t", "first", "v")[0])
	b.refuse(relay.Permanent, func(m *relay.Message) bool { return m.Topic == "t" || m.ID.EventID == first })
	for n := range 40 {
		f.writes("t", fmt.Sprint(n), "v")
	}
	f.run(b, relay.ForAll(relay.TopicSettings{DLQTopic: "dlq", BreakerEvents: -1}), nil)
	f.waitFor(`select count(*) = 40 from postrider.outbox_exception where state = 'dead_lettered'`)
	f.waitFor(`select state = 'exhausted' and next_attempt_at > now() + interval '50 seconds' from postrider.outbox_exception where id = 1`)
	if got := strings.Count(b.arrived("dlq"), "v"); got != 40 || f.holds() != 0 {
		t.Errorf("%d letters arrived, %d holds", got, f.holds())
	}
	b.mend()
	f.exec(`update postrider.outbox_exception set next_attempt_at = now(), updated_at = now() where id = 1`)
	f.state(1, relay.DeadLettered)
}
