package dlq

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/postrider/postrider/message"
)

// TestWhatASourceAnswersIsTold: an answer moves an investigation from what was asked to what was done or skipped, once, and touches no
// other.
func TestWhatASourceAnswersIsTold(t *testing.T) {
	t.Parallel()
	first, second, third := uuid.New(), uuid.New(), uuid.New()
	done := Requeued{Entries: []uuid.UUID{first, second, third}, Asked: []uuid.UUID{first, second, third}}
	done.Answer(first, AnswerInPlace, "")
	done.Answer(second, string(Stale), "")
	done.Answer(second, AnswerNew, "") // a second answer is not believed
	done.Answer(uuid.New(), string(Refused), "")
	if !slices.Equal(done.Entries, []uuid.UUID{first, third}) || !slices.Equal(done.Asked, []uuid.UUID{third}) || len(done.Skipped) != 1 {
		t.Fatalf("after two answers: %+v", done)
	}
	if s := done.Skipped[0]; s.Entry != second || s.Reason != Stale || s.Explain() != Stale.Explain() {
		t.Errorf("what was skipped: %+v, %s", s, s.Explain())
	}
	done.Answer(third, string(Refused), "value too long")
	if s := done.Skipped[1]; len(done.Entries) != 1 || len(done.Asked) != 0 || !strings.HasSuffix(s.Explain(), ": value too long") {
		t.Errorf("a refusal in the source's words: %+v", done)
	}
}

// TestASourceCountsAsAway once it has left a command alone for longer than its patience, and has not said meanwhile that its relay is
// at it.
func TestASourceCountsAsAway(t *testing.T) {
	t.Parallel()
	now := time.Now()
	long, short := now.Add(-sourcePatience-time.Second), now.Add(-time.Second)
	for name, c := range map[string]struct {
		w    WaitingCommands
		busy time.Time
		away bool
	}{
		"nothing waits":        {WaitingCommands{Oldest: long}, time.Time{}, false},
		"it was just asked":    {WaitingCommands{Count: 1, Oldest: short}, time.Time{}, false},
		"it is busy":           {WaitingCommands{Count: 1, Oldest: long}, short, false},
		"it was busy once":     {WaitingCommands{Count: 1, Oldest: long}, long, true},
		"it never said a word": {WaitingCommands{Count: 9, Oldest: long}, time.Time{}, true},
	} {
		if got := c.w.Away(c.busy, now); got != c.away {
			t.Errorf("%s: away %t", name, got)
		}
	}
}

// TestAPlanKnowsWhoSends: events of other sources are for these, everything else for the desk's own outbox, records of other sources
// too; and a source that is away skips its own events alone.
func TestAPlanKnowsWhoSends(t *testing.T) {
	t.Parallel()
	own, orders, billing := &Candidate{Subject: SubjectEvent}, &Candidate{Subject: SubjectEvent, Source: "orders"}, &Candidate{Subject: SubjectEvent, Source: "billing"}
	record, closed := &Candidate{Subject: SubjectRecord, Source: "orders"}, &Candidate{Subject: SubjectEvent, Source: "orders", Skip: NotPending}
	plan := &RedrivePlan{Candidates: []*Candidate{own, orders, billing, record, closed}}
	if got := plan.OfSources(); !slices.Equal(got, []*Candidate{orders, billing}) {
		t.Errorf("of sources: %v", got)
	}
	if got := plan.SentHere(); !slices.Equal(got, []*Candidate{own, record}) {
		t.Errorf("sent here: %v", got)
	}
	plan.SkipSource("orders", time.Date(2026, 11, 24, 1, 2, 3, 400, time.UTC))
	if orders.Skip != SourceAway || !strings.Contains(orders.Detail, "orders has answered nothing since 2026-11-24T01:02:03Z") {
		t.Errorf("the event of a source that is away: %q, %q", orders.Skip, orders.Detail)
	}
	if billing.Skip != "" || record.Skip != "" || closed.Skip != NotPending || closed.Detail != "" {
		t.Errorf("the others: %q, %q, %q", billing.Skip, record.Skip, closed.Skip)
	}
}

// TestEachReasonIsExplained: no reason is shown as a bare word, and none that is final passes by itself.
func TestEachReasonIsExplained(t *testing.T) {
	t.Parallel()
	for _, r := range SkipReasons() {
		if text := r.Explain(); text == string(r) || text == "" {
			t.Errorf("%s is not explained", r)
		}
		if r.Final() && r.Passing() {
			t.Errorf("%s is final, and passes", r)
		}
	}
	for _, r := range []SkipReason{SourceAway, Stale, Busy} {
		if !r.Passing() {
			t.Errorf("%s does not pass", r)
		}
	}
	if unknown := SkipReason("new word"); unknown.Explain() != "new word" {
		t.Errorf("an unknown reason: %q", unknown.Explain())
	}
}

// TestWhatInboxesKnowALetterBy stays the first that its message was sent as.
func TestWhatInboxesKnowALetterBy(t *testing.T) {
	t.Parallel()
	event := uuid.New()
	of := "event:" + uuid.NewString()
	for name, c := range map[string]struct {
		l    Letter
		want string
	}{
		"an event":             {Letter{EventID: event}, "event:" + event.String()},
		"a redriven event":     {Letter{EventID: event, Headers: []message.Header{{Name: message.HeaderRedriveOf, Value: []byte(of)}}}, of},
		"a header that is bad": {Letter{EventID: event, Headers: []message.Header{{Name: message.HeaderRedriveOf, Value: []byte("x")}}}, "event:" + event.String()},
		"a record":             {Letter{Subject: Subject{SubjectRecord, "orders/3/42#billing"}}, "record:orders/3/42"},
		"a task":               {Letter{Subject: Subject{SubjectTask, "t"}}, ""},
	} {
		if got := c.l.FirstSentAs(); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
	for name, l := range map[string]Letter{
		"its own": {ConsumerGroup: "billing", Headers: []message.Header{{Name: message.HeaderRedriveFor, Value: []byte("other")}}},
		"said":    {Headers: []message.Header{{Name: message.HeaderRedriveFor, Value: []byte("billing")}}},
	} {
		if got := l.FailedGroup(); got != "billing" {
			t.Errorf("the group is %s: %q", name, got)
		}
	}
	if got := (&Letter{}).FailedGroup(); got != "" {
		t.Errorf("no group: %q", got)
	}
}

// TestTakenMeanwhile: what another person has taken meanwhile is refused, with both names.
func TestTakenMeanwhile(t *testing.T) {
	t.Parallel()
	ann, bob, none := "ann", "bob", ""
	for _, c := range []struct {
		is                 string
		expected, assignee *string
		refused            string
	}{
		{"ann", nil, &bob, ""},
		{"ann", &ann, &bob, ""},
		{"bob", &none, &bob, ""},
		{"ann", &none, &bob, `with "ann", and was expected unassigned`},
		{"", &ann, &bob, `unassigned, and was expected with "ann"`},
	} {
		err := NotTaken(c.is, c.expected, c.assignee)
		if (err == nil) != (c.refused == "") || err != nil && (!errors.Is(err, ErrTaken) || !strings.Contains(err.Error(), c.refused)) {
			t.Errorf("%q for %q: %v", c.is, *c.assignee, err)
		}
	}
}
