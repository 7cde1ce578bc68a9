package dlq

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
)

// TestWhoSendsWhat: events of named sources are theirs to send, and the desk sends the rest; the audit log names the sources of what
// is sent, each once.
func TestWhoSendsWhat(t *testing.T) {
	t.Parallel()
	of := func(source string) func(*Candidate) { return func(c *Candidate) { c.Source = source } }
	p := &RedrivePlan{Candidates: []*Candidate{candidate(1), candidate(2, of("orders")), candidate(3, of("billing")), candidate(4, of("orders")),
		record(5, of("orders")), candidate(6, of("away"))}}
	ids := func(all []*Candidate) (n []byte) {
		for _, c := range all {
			n = append(n, c.Entry[15])
		}
		return n
	}
	if got := p.Sources(); !slices.Equal(got, []string{"away", "billing", MainSource, "orders"}) {
		t.Errorf("sources %q", got)
	}
	p.SkipForgotten("billing")
	p.SkipSource("away", time.Date(2026, 1, 2, 3, 4, 5, 6, time.UTC))
	if got := ids(p.OfSources()); !slices.Equal(got, []byte{2, 4}) {
		t.Errorf("sources send %v, want 2 and 4", got)
	}
	if got := ids(p.SentHere()); !slices.Equal(got, []byte{1, 5}) {
		t.Errorf("the desk sends %v, want 1 and 5", got)
	}
	if got := p.Candidates[2].Skip; got != SourceForgotten {
		t.Errorf("an event of a source that is gone: %q", got)
	}
	if c := p.Candidates[5]; c.Skip != SourceAway || !strings.Contains(c.Detail, "the source away has answered nothing since 2026-01-02T03:04:05Z") {
		t.Errorf("an event of a source that is away: %q, %s", c.Skip, c.Detail)
	}
	p.Candidates[0].RedrivenInPlace()
	if got := p.InPlace(); !slices.Equal(got, []int64{1}) {
		t.Errorf("in their places %v", got)
	}
	if got := p.Sources(); !slices.Equal(got, []string{MainSource, "orders"}) {
		t.Errorf("sources of what is sent %q", got)
	}
}

// TestAnAnswerOfASource: an investigation that its source did nothing about moves to the skipped ones, with the source's reason.
func TestAnAnswerOfASource(t *testing.T) {
	t.Parallel()
	placed, renewed, released, refused, other := planID(1), planID(2), planID(3), planID(4), planID(5)
	all := []uuid.UUID{placed, renewed, released, refused}
	q := Requeued{Entries: slices.Clone(all), Asked: slices.Clone(all)}
	q.Answer(placed, AnswerInPlace, "")
	q.Answer(renewed, AnswerNew, "")
	q.Answer(released, AnswerReleased, "")
	q.Answer(refused, string(Stale), "it moved on")
	q.Answer(other, string(Stale), "it was not asked")
	if len(q.Asked) != 0 || !slices.Equal(q.Entries, all[:3]) {
		t.Errorf("%+v", q)
	}
	if len(q.Skipped) != 1 || q.Skipped[0].Entry != refused || q.Skipped[0].Reason != Stale {
		t.Errorf("skipped %+v", q.Skipped)
	}
}

// TestRejoinSays: whether there is anything to lead back, and how many of the source's redrives the desk has no letter for.
func TestRejoinSays(t *testing.T) {
	t.Parallel()
	if !(Rejoin{}).Nothing() {
		t.Error("a source that is as the desk knows it has something to lead back")
	}
	for name, r := range map[string]Rejoin{"stopped": {Reason: StopRewound}, "a copy": {Copied: true}, "an act": {Acts: []SourceAct{{}}}} {
		if r.Nothing() {
			t.Errorf("%s: nothing", name)
		}
	}
	r := Rejoin{Acts: []SourceAct{{HasLetter: true, Sent: 1}, {Sent: 1}, {}, {Sent: 2}}}
	if n := r.MissingLetters(); n != 2 {
		t.Errorf("%d letters are missing, want 2", n)
	}
	for _, reason := range StopReasons() {
		err := &StoppedError{Source: "orders", Reason: reason, Detail: "seen at noon"}
		if text := err.Error(); !strings.Contains(text, "orders") || !strings.Contains(text, "seen at noon") {
			t.Errorf("%s: %s", reason, text)
		}
	}
}
